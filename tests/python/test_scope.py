# SPDX-License-Identifier: Apache-2.0
"""Scopes: what is left in the midst, cancelled, limited."""

import asyncio
import contextlib

import ferry
from support import EngineCase, MEBIBYTE


class Scopes(EngineCase):
    async def test_waits_for_all(self):
        promise = self.engine.promise()
        target, source = self.engine.allocate(MEBIBYTE), self.engine.buffer(b"x" * MEBIBYTE)
        asyncio.get_running_loop().call_soon(promise.resolve)
        async with self.engine.scope() as scope:
            first = self.engine.copy(target, source, scope=scope, after=promise.future)
            many = self.engine.copy_blocks(target, source, [0, 4096], [4096, 0], 4096, scope=scope)
            called = self.engine.call(asyncio.sleep, 0, "slept", scope=scope, reads=target)
            nop = self.engine.nop(scope=scope)
        self.assertEqual([one.status for one in (first, many, called, nop)], ["FERRY_OK"] * 4)
        self.assertEqual(called.result(), "slept")
        self.assertIs(scope.engine, self.engine)
        with self.assertRaises(ferry.InvalidError):
            self.engine.nop(scope=scope)

    async def test_left_by_an_exception(self):
        ended = []

        async def forever():
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        block = self.engine.allocate(8)
        promise, _, _ = self.held()
        with self.assertRaises(KeyError):
            async with self.engine.scope() as scope:
                held = self.engine.copy(block, bytes(8), scope=scope, after=promise.future)
                called = self.engine.call(forever, scope=scope)
                await called.issued()
                await asyncio.sleep(0)
                raise KeyError
        self.assertEqual((held.status, called.status), ("FERRY_E_CANCELLED",) * 2)
        with self.assertRaises(ferry.CancelledError):
            await self.engine.nop(scope=scope)
        promise.resolve()

    async def test_cancelled_inside_and_at_the_end(self):
        for inside in (True, False):
            promise = self.engine.promise()
            entered = asyncio.Event()
            futures = []

            async def use():
                async with self.engine.scope() as scope:
                    futures.append(self.engine.nop(scope=scope, after=promise.future))
                    entered.set()
                    if inside:
                        await futures[0]

            task = asyncio.ensure_future(use())
            await entered.wait()
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(futures[0].status, "FERRY_E_CANCELLED")
            promise.resolve()

    async def test_timeout(self):
        promise = self.engine.promise()
        async with self.engine.scope(timeout=0.001) as scope:
            late = self.engine.nop(scope=scope, after=promise.future)
        self.assertIsInstance(late.exception(), ferry.DeadlineError)
        promise.resolve()

    async def test_messages(self):
        async with self.engine.join(store="mem:scope", job="one", size=1) as group:
            target = bytearray(MEBIBYTE)
            async with self.engine.scope() as scope:
                group.recv(0, target, scope=scope)
                group.send(0, b"m" * MEBIBYTE, scope=scope)
            self.assertEqual(target, b"m" * MEBIBYTE)

    async def test_limit(self):
        async with self.engine.scope(bytes_per_second=1 << 60, burst_bytes=1) as scope:
            for _ in range(10):
                self.engine.copy(bytearray(8192), bytes(8192), scope=scope)
        for error, options in (
            (ferry.InvalidError, {"burst_bytes": 1}),
            (ferry.InvalidError, {"bytes_per_second": (1 << 60) + 1}),
            (ValueError, {"bytes_per_second": -1}),
            (TypeError, {"timeout": "soon"}),
            (TypeError, {"nonsense": 1}),
        ):
            with self.assertRaises(error):
                self.engine.scope(**options)
        self.assertRaises(TypeError, self.engine.nop, scope=1)
        self.assertRaises(TypeError, ferry.Scope)

    async def test_dropped(self):
        promise = self.engine.promise()
        scope = self.engine.scope()
        late = self.engine.nop(scope=scope, after=promise.future)
        del scope
        promise.resolve()
        await late

    async def test_of_a_closed_engine(self):
        scope = self.engine.scope()
        await self.engine.close()
        self.assertRaises(ferry.ShutdownError, self.engine.scope)
        with contextlib.suppress(ferry.ShutdownError):
            await scope.close()
