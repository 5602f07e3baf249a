# SPDX-License-Identifier: Apache-2.0
"""Windows: gets and puts between two members of this process, and of two."""

import array
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import ferry
from ferry import WindowState
from support import PairCase, run_child

LOST = (ferry.DeadError, ferry.PeerError)


class Windows(PairCase):
    async def pair(self, memory, name="w", rights="both"):
        own = await self.owner.open_window(memory, name, rights=rights)
        return own, await self.other.find_window(0, name, timeout=60)

    async def test_get_and_put(self):
        memory = self.engine.buffer(bytearray(b"0123456789abcdef"))
        own, window = await self.pair(memory[4:12], "kv/layer.0")
        info = window.describe()
        self.assertEqual(info, (WindowState.OPEN, "both", 0, 8, "kv/layer.0"))
        self.assertEqual(own.describe(), info)
        self.assertEqual(repr(window), "<ferry.Window 'kv/layer.0' of 0, OPEN>")
        self.assertIs(window.engine, self.other_engine)

        target = bytearray(4)
        self.assertIsNone(await window.get(0, target))
        self.assertEqual(target, b"4567")
        await window.put(6, b"XY")
        self.assertEqual(bytes(memory), b"0123456789XYcdef")
        local = self.other_engine.buffer(array.array("I", [0, 0]))
        await window.get(4, local[4:8], label="part", priority=1, user_data=7)
        self.assertEqual(bytes(local), b"\0\0\0\x0089XY")
        await window.get(8, local[0:0])  # nothing, at its end

    async def test_local_spans_are_ordered(self):
        memory = bytearray(8)
        own, window = await self.pair(memory)
        promise = self.other_engine.promise()
        block, result = self.other_engine.allocate(8), bytearray(8)
        self.other_engine.copy(block, b"computed", after=promise.future)
        put = window.put(0, block)
        got = window.get(0, block, after=put)
        copied = self.other_engine.copy(result, block)
        self.assertFalse(put.done() or got.done() or copied.done())
        promise.resolve()
        await copied
        self.assertEqual((memory, result), (b"computed", b"computed"))
        never = self.other_engine.promise()
        async with self.other_engine.scope() as scope:
            cut = window.get(0, block, after=never.future, scope=scope)
            scope.cancel()
        self.assertEqual(cut.status, "FERRY_E_CANCELLED")

    async def test_blocks(self):
        memory = bytearray(range(64))
        own, window = await self.pair(memory)
        target = bytearray(16)
        await window.get_blocks([32, 0, 60], target, [0, 8, 4], 4)
        self.assertEqual(
            list(target), [*range(32, 36), *range(60, 64), *range(4), 0, 0, 0, 0]
        )
        await window.put_blocks(array.array("q", [0, 2]), b"abcd", range(0, 4, 2), 2)
        self.assertEqual(memory[:5], b"abcd\x04")
        await window.get_blocks(0, target, 0, 16)
        self.assertEqual(target[:4], b"abcd")
        await window.get_blocks([], target, [], 4)
        block = self.other_engine.buffer(target)
        for error, arguments in (
            (ValueError, ([0, 1], block, [0], 4)),
            (ValueError, ([0, 1], block, [0, 13], 4)),
            (ValueError, ([-1], block, [0], 4)),
            (ValueError, (0, block, 0, 17)),
            (TypeError, (["0"], block, [0], 4)),
            (TypeError, (0, 17, 0, 4)),
            (BufferError, (0, b"read-only", 0, 4)),
        ):
            with self.assertRaises(error):
                window.get_blocks(*arguments)
        self.assertRaises(TypeError, window.get_blocks, 0, block, 0)
        self.assertRaises(TypeError, window.put_blocks, 0, block, 0, 4, nonsense=1)
        with self.assertRaises(ferry.DependencyError) as caught:
            await window.put_blocks([0, 62], b"abcd", 0, 4)
        self.assertIsInstance(caught.exception.__cause__, ferry.InvalidError)
        block.close()  # no call still uses it
        with self.assertRaisesRegex(ValueError, "closed"):
            window.get_blocks(0, block, 0, 4)

    async def test_found_before_it_is_open(self):
        window = self.other.find_window(0, "late")
        self.assertEqual(window.describe(), (WindowState.PENDING, "", 0, 0, "late"))
        target = bytearray(4)
        got = window.get(0, target, after=window.ready)
        self.assertFalse(got.done())
        own = self.owner.open_window(b"here", "late")
        self.assertIs(await window, window)
        await got
        self.assertEqual(target, b"here")
        self.assertIs(await own, own)

    async def test_not_found(self):
        with self.assertRaises(ferry.DeadlineError):
            await self.other.find_window(0, "none", timeout=0.001)
        window = self.other.find_window(0, "none")

        async def sought():
            return await window

        task = asyncio.ensure_future(sought())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await window.close()
        with self.assertRaises(ferry.NotFoundError):
            await window.get(0, bytearray(4))
        dropped = self.other.find_window(0, "none").ready  # its object is gone at once
        with self.assertRaises(ferry.NotFoundError):
            await dropped

    async def test_wrong_arguments(self):
        memory = self.engine.buffer(bytearray(8))
        theirs = self.other_engine.allocate(8)
        open_window, find_window = self.owner.open_window, self.owner.find_window
        for error, arguments, rights in (
            (ferry.InvalidError, (memory, "a//b"), "get"),
            (ferry.InvalidError, (memory, ""), "get"),
            (ferry.InvalidError, (memory[0:0], "a"), "get"),
            (ferry.InvalidError, (theirs, "a"), "get"),
            (ValueError, (memory, "a\0b"), "get"),
            (ValueError, (memory, "a"), "all"),
            (TypeError, (memory, "a"), 1),
            (TypeError, (memory, 1), "get"),
            (TypeError, (1, "a"), "get"),
            (BufferError, (b"source", "a"), "put"),
            (BufferError, (b"source", "a"), "both"),
        ):
            with self.assertRaises(error):
                open_window(*arguments, rights=rights)
        for error, arguments in (
            (ferry.InvalidError, (0, "a")),
            (ferry.InvalidError, (1, "")),
            (ferry.NotFoundError, (2, "a")),
            (ValueError, (-1, "a")),
            (TypeError, ("1", "a")),
            (TypeError, (1, b"a")),
        ):
            with self.assertRaises(error):
                find_window(*arguments)
        self.assertRaises(TypeError, find_window, 1, "a", timeout="long")
        self.assertRaises(TypeError, ferry.Window)
        closed = self.engine.allocate(8)
        closed.close()
        self.assertRaises(ValueError, open_window, closed, "a")

        own, window = await self.pair(memory)
        for use in (own.get, own.put):  # its own memory
            with self.assertRaises(ferry.InvalidError):
                await use(0, memory)
        for error, offset, span in (
            (ferry.InvalidError, 1, theirs),
            (ferry.InvalidError, 2**64 - 1, theirs),
            (ferry.InvalidError, 0, memory),  # of the other engine
            (ValueError, -1, theirs),
            (ValueError, 2**64, theirs),
            (TypeError, 0.5, theirs),
            (TypeError, 0, 17),
            (ValueError, 0, closed),
        ):
            for use in (window.get, window.put):
                with self.assertRaises(error):
                    await use(offset, span)
        self.assertRaises(BufferError, window.get, 0, b"read-only")
        self.assertRaises(TypeError, window.get, 0)
        self.assertRaises(TypeError, window.put, 0, theirs, tag=1)
        with self.assertRaises(ferry.ChangedError):
            await open_window(memory, "w")

    async def test_rights(self):
        own, gets = await self.pair(bytearray(8), "gets", "get")
        own_too, puts = await self.pair(bytearray(8), "puts", "put")
        with self.assertRaisesRegex(ferry.InvalidError, "rights"):
            await gets.put(0, b"no")
        with self.assertRaisesRegex(ferry.InvalidError, "rights"):
            await puts.get(0, bytearray(2))
        with self.assertRaises(ferry.DependencyError):
            await puts.get_blocks(0, bytearray(2), 0, 2)
        await puts.put(0, b"yes")
        target = bytearray(6)
        own_source, source = await self.pair(b"source", "source", "get")  # read-only memory
        await source.get(0, target)
        self.assertEqual(target, b"source")

    async def test_close(self):
        memory = bytearray(8)
        own, window = await self.pair(memory)
        closed = own.close()
        await own.close()
        await closed
        await own.close()  # again, when it has ended
        self.assertEqual(own.describe().state, WindowState.CLOSED)
        with self.assertRaisesRegex(ferry.NotFoundError, "closed"):
            await window.get(0, bytearray(8))
        with self.assertRaises(ferry.DependencyError):
            await window.put_blocks([0, 4], bytes(8), [0, 4], 4)
        own, window = await self.pair(memory)  # the name is free
        await window.close()
        self.assertEqual(own.describe().state, WindowState.OPEN)
        with self.assertRaises(ferry.NotFoundError):
            await window.put(0, b"no")
        waits = own.close()
        waits.cancel()  # ends the wait alone
        await own.close()
        self.assertEqual(memory, bytes(8))

    async def test_memory_is_held_until_it_is_closed(self):
        memory = bytearray(8)
        own, window = await self.pair(memory)
        self.assertRaises(BufferError, memory.append, 1)
        await window.put(0, b"held")
        await own.close()
        del own

        def resized():
            try:
                memory.append(1)
            except BufferError:
                return False
            return True

        await self.until(resized)
        self.assertEqual(memory, b"held\0\0\0\0\x01")
        buffer = self.engine.buffer(bytearray(b"kept"))
        own, window = await self.pair(buffer)
        buffer.close()  # the window keeps what it is of
        target = bytearray(4)
        await window.get(0, target)
        self.assertEqual(target, b"kept")

    async def test_window_that_is_dropped(self):
        memory = bytearray(8)
        own, window = await self.pair(memory)
        gone = weakref.ref(own)
        del own  # and so closed
        self.assertIsNone(gone())
        await self.until(lambda: window.describe().state == WindowState.CLOSED)
        with self.assertRaises(ferry.NotFoundError):
            await window.get(0, bytearray(8))

    async def test_async_with(self):
        memory = bytearray(8)
        with self.assertRaises(KeyError):
            async with self.owner.open_window(memory, "w", rights="both") as own:
                async with self.other.find_window(0, "w") as window:
                    await window.put(0, b"inside")
                    raise KeyError("in the midst")
        self.assertEqual(own.describe().state, WindowState.CLOSED)
        self.assertEqual(window.describe().state, WindowState.CLOSED)
        with self.assertRaises(ferry.DeadlineError):
            async with self.other.find_window(0, "w", timeout=0.001):
                self.fail("it was found")

        begun = asyncio.Event()

        async def hold():
            async with self.owner.open_window(memory, "held") as opened:
                begun.set()
                held.append(opened)
                await asyncio.Event().wait()

        held = []
        task = asyncio.ensure_future(hold())
        await begun.wait()
        window = await self.other.find_window(0, "held")
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # also while it closes
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(held[0].describe().state, WindowState.CLOSED)
        with self.assertRaises(ferry.NotFoundError):
            await window.get(0, bytearray(8))
        task = asyncio.ensure_future(hold())
        await asyncio.sleep(0)
        task.cancel()  # while it opens, or when it has
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.owner.open_window(memory, "held")

    async def test_owner_leaves(self):
        own, window = await self.pair(bytearray(8))
        sought = self.other.find_window(0, "never")
        await self.owner.leave()
        self.assertEqual(own.describe().state, WindowState.CLOSED)
        with self.assertRaises(LOST):
            await sought
        with self.assertRaises(LOST) as caught:
            await window.get(0, bytearray(8))
        self.assertEqual(caught.exception.rank, 0)
        await window.close()
        self.assertRaises(ValueError, self.owner.open_window, b"late", "late")
        self.assertRaises(ValueError, self.owner.find_window, 1, "late")

    async def test_owner_ends_its_engine(self):
        own, window = await self.pair(bytearray(8))
        await self.engine.close()
        with self.assertRaises(LOST):
            await window.put(0, b"lost")
        self.assertEqual(own.describe().state, WindowState.CLOSED)
        self.assertRaises(ferry.ShutdownError, own.close)
        self.assertRaises(ferry.ShutdownError, self.owner.open_window, b"late", "late")

    async def test_threads(self):
        memory = bytearray(4 * 64)
        own, window = await self.pair(memory)
        errors = []

        def work(part):
            try:
                for number in range(1, 101):
                    own, back = bytes([number]) * 64, bytearray(64)
                    put = window.put(part * 64, own)
                    got = window.get(part * 64, back, after=put)
                    assert got.wait()
                    got.result()
                    assert back == own, (number, back)
                    blocks = window.get_blocks([part * 64, part * 64 + 32], back, [32, 0], 32)
                    assert blocks.wait()
                    blocks.result()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            await window.get(0, bytearray(1))
            await asyncio.sleep(0)
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(memory, bytes([100]) * 256)

    async def test_closed_while_others_submit(self):
        own, window = await self.pair(bytearray(64))
        stopped = []

        def work():
            try:
                while True:
                    future = window.get_blocks(range(64), bytearray(64), range(64), 1)
                    future.wait()
                    future.result()
            except ferry.DependencyError as error:
                stopped.append(type(error.__cause__))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        await own.close()
        for thread in threads:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
        self.assertEqual(stopped, [ferry.NotFoundError] * 2)

    async def test_fork(self):
        own, window = await self.pair(bytearray(8))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            answer = b"wrong"
            try:
                refused = 0
                for use in (lambda: window.get(0, bytearray(8)), own.close, window.close):
                    try:
                        use()
                    except ferry.ForkedError:
                        refused += 1
                del own, window
                gc.collect()
                answer = b"%d" % refused
            finally:
                os.write(write, answer)
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            self.assertEqual(pipe.read(), b"3")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        await window.put(0, b"goes on")  # what the child has dropped is open here


MEMBER = """
import asyncio, ferry, os, sys
async def owner(group):
    memory = bytearray(8 << 20)
    async with group.open_window(memory, "cache", rights="both"):
        rank, data = await group.next_notice()
        assert (rank, data) == (1, b"put"), (rank, data)
        assert memory[:4096] == b"p" * 4096 and memory[-4096:] == b"p" * 4096
        memory[4096:8192] = b"o" * 4096
        await group.send_notice(1, b"look")
        if os.environ.get("DIES"):
            await group.next_notice()
            os.kill(os.getpid(), 9)
        await group.next_notice()
async def other(group):
    window = await group.find_window(0, "cache", timeout=60)
    put = window.put_blocks([0, (8 << 20) - 4096], b"p" * 8192, [0, 4096], 4096)
    await group.send_notice(0, b"put", after=put)
    assert (await group.next_notice()).data == b"look"
    target = bytearray(4096)
    await window.get(4096, target)
    assert target == b"o" * 4096
    told = group.send_notice(0, b"done")
    if os.environ.get("DIES"):
        try:
            while True:
                await window.get(0, target)
        except (ferry.DeadError, ferry.PeerError) as error:
            print("dead", error.rank)
    else:
        await told
async def main(store, rank):
    async with ferry.Engine(host_devices=1) as engine:
        async with engine.join(store=store, job="pair", size=2, rank=rank, timeout=60,
                               secret=b"0123456789abcdef", linger=0) as group:
            await (other if rank else owner)(group)
    print("left")
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class TwoProcesses(unittest.TestCase):
    def run_pair(self, **environment):
        with tempfile.TemporaryDirectory(prefix="ferry-python.") as folder:
            members = [
                subprocess.Popen(
                    [sys.executable, "-c", MEMBER, f"file:{folder}", str(rank)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=dict(os.environ, **environment),
                )
                for rank in range(2)
            ]
            return [member.communicate()[0] for member in members], [
                member.returncode for member in members
            ]

    def test_bytes(self):
        self.assertEqual(self.run_pair(), (["left\n", "left\n"], [0, 0]))

    def test_death(self):
        output, codes = self.run_pair(DIES="1")
        self.assertEqual((output[1], codes), ("dead 0\nleft\n", [-9, 0]))


PAIR = """
import asyncio, ferry, gc, sys
async def pair(first, second):
    def join(engine, rank):
        return engine.join(store="mem:pair", job="pair", size=2, rank=rank)
    return await asyncio.gather(join(first, 0), join(second, 1))
"""


class Ends(unittest.TestCase):
    def test_interpreter_ends_with_open_windows(self):
        code = PAIR + """
async def main():
    global kept
    engines = [ferry.Engine(host_devices=1) for _ in range(2)]
    owner, other = await pair(*engines)
    own = await owner.open_window(bytearray(1 << 20), "w", rights="both")
    window = await other.find_window(0, "w")
    kept = [engines, owner, other, own, window, other.find_window(0, "never"),
            owner.next_notice(), owner.send_notice(1, b"nobody takes it"),
            [window.put(0, bytes(1 << 20)) for _ in range(16)]]
asyncio.run(main())
"""
        run_child(code)

    def test_references(self):
        """Every object that a scene makes is gone after it."""
        code = PAIR + """
async def scene(owner, other, memory):
    async with owner.open_window(memory, "w", rights="both") as own:
        window = await other.find_window(0, "w")
        target = bytearray(64)
        await window.get(0, target)
        put = window.put_blocks([0, 8], target, [8, 0], 8)
        told = other.send_notice(0, b"put", after=put)
        assert (await owner.next_notice()).rank == 1
        await told
        try:
            await window.get(1, target)
        except ferry.InvalidError:
            pass
        try:
            owner.open_window(memory, "//")
        except ferry.InvalidError:
            pass
        own.cycle = own  # collected with what it holds
        cut = owner.next_notice()
        cut.cancel()
        sought = other.find_window(0, "never")
        window.describe()
    del own.cycle

def objects():
    gc.collect()
    return len(gc.get_objects())

async def main():
    memory = bytearray(64)
    async with ferry.Engine(host_devices=1) as first, ferry.Engine(host_devices=1) as second:
        owner, other = await pair(first, second)
        counts = []
        for round in range(6):
            for _ in range(40):
                await scene(owner, other, memory)
            await second.drain()
            first.nop()
            counts.append((objects(), sys.getrefcount(first), sys.getrefcount(memory)))
        for engine in (first, second):
            assert engine._attached[asyncio.get_running_loop()].watching <= 1, engine
    # What was cancelled, or freed last, may be late; the counts do not grow.
    alive = [count[0] for count in counts]
    assert max(alive[3:]) - min(alive[1:]) < 50, counts
    for part in (1, 2):
        held = [count[part] for count in counts]
        assert max(held) - min(held) <= 3, counts
    print("flat")

asyncio.run(main())
"""
        self.assertEqual(run_child(code), "flat\n")
