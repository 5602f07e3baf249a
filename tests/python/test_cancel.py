# SPDX-License-Identifier: Apache-2.0
"""Tasks that are cancelled, at each await."""

import asyncio

import ferry
from support import EngineCase, MEBIBYTE


class Cancel(EngineCase):
    async def test_cancels_the_operation(self):
        promise, _, copied = self.held()

        async def wait():
            await copied

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await copied.quiet()
        self.assertIsInstance(copied.exception(), ferry.CancelledError)
        promise.resolve()

    async def test_cancels_a_promise(self):
        promise = self.engine.promise()
        future = promise.future

        async def wait():
            await future

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        with self.assertRaises(ferry.CancelledError):
            await future
        self.assertRaises(ferry.CancelledError, promise.resolve)

    async def test_shield_keeps_the_operation(self):
        promise, target, copied = self.held()

        async def wait():
            await copied

        inner = asyncio.ensure_future(wait())
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 0.001)
        promise.resolve()
        await inner
        self.assertEqual(target, b"12345678")

    async def test_several_tasks_await_one_future(self):
        promise, _, copied = self.held()

        async def wait():
            await copied

        tasks = [asyncio.ensure_future(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        promise.resolve()
        await asyncio.gather(*tasks)

    async def test_coroutine_closed_while_it_waits(self):
        promise, _, copied = self.held()

        async def wait():
            await copied

        coroutine = wait()
        coroutine.send(None)
        coroutine.close()
        self.assertFalse(copied.done())
        promise.resolve()
        await copied

    async def scenario(self, log):
        """Has an await of every sort."""
        engine, size = self.engine, MEBIBYTE
        target, source = bytearray(size), bytes(range(256)) * (size // 256)
        buffer = engine.buffer(target)
        await engine.copy(buffer, source)
        other = engine.allocate(size, device="host:1")
        await engine.copy_blocks(other, buffer, range(0, size, 4096), range(0, size, 4096), 4096)
        log.append("copied")
        promise = engine.promise()
        asyncio.get_running_loop().call_soon(promise.resolve, b"value")
        log.append(await promise.future)

        async def turns():
            for _ in range(3):
                await asyncio.sleep(0)

        await engine.call(turns, writes=other)
        await engine.call(len, b"", reads=other)
        await engine.all([engine.copy(target, buffer) for target in [engine.allocate(size)] * 3])
        async with engine.join(store="mem:cancel", job="one", size=1) as group:
            received = group.recv(0, bytearray(size), tag=1)
            await group.send(0, buffer, tag=1)
            await received
            await group.set("key", b"x")
            log.append(await group.get("key"))
            await group.barrier("end")
        await engine.drain()
        released = buffer.released()
        buffer.close()
        await released
        target.append(0)
        log.append("end")

    async def test_at_each_await(self):
        """Cancelled after each number of the event loop's turns until it gets to its end."""
        loop = asyncio.get_running_loop()
        for turns in range(10000):
            log = []
            task = asyncio.ensure_future(self.scenario(log))

            def countdown(left):
                if left and not task.done():
                    loop.call_soon(countdown, left - 1)
                else:
                    task.cancel()

            countdown(turns)
            try:
                await task
            except asyncio.CancelledError:
                continue
            except ferry.FerryError:  # what was cancelled poisoned what came behind it
                self.fail(f"after {turns} turns")
            break
        self.assertEqual(log[-1], "end")
        await self.engine.drain()

    async def test_close_cancelled(self):
        promise = self.engine.promise()
        called = self.engine.call(asyncio.Event().wait)
        closing = asyncio.ensure_future(self.engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await closing
        await self.engine.close()
        with self.assertRaises(ferry.ShutdownError):
            await called
        self.assertRaises(ferry.ShutdownError, promise.resolve)
