# SPDX-License-Identifier: Apache-2.0
"""Copies, batches, calls, promises and what fails of them."""

import array
import asyncio
import concurrent.futures
import json
import os
import threading

import ferry
from ferry import _core
from support import MEBIBYTE, EngineCase


class Copies(EngineCase):
    async def test_moves_bytes_between_devices(self):
        for size in (1, 64, 4096, 4097, MEBIBYTE + 3):
            data = os.urandom(size)
            first, second = self.engine.allocate(size), self.engine.allocate(size, device="host:1")
            target = bytearray(size)
            self.engine.copy(first, data)
            self.engine.copy(second, first)
            await self.engine.copy(target, second)
            self.assertEqual(bytes(target), data)
            self.assertEqual(bytes(second), data)

    async def test_result_is_none_and_may_be_awaited_again(self):
        copied = self.engine.copy(bytearray(3), b"abc")
        self.assertIsNone(await copied)
        self.assertIsNone(await copied)
        self.assertEqual(copied.status, "FERRY_OK")
        self.assertIsNone(copied.exception())

    async def test_spans(self):
        buffer = self.engine.buffer(bytearray(b"0123456789"))
        span = buffer[2:8][1:-1]
        self.assertEqual((span.offset_bytes, span.size_bytes, len(span)), (3, 4, 4))
        self.assertEqual(bytes(span.view()), b"3456")
        await self.engine.copy(span, b"abcd")
        self.assertEqual(bytes(buffer), b"012abcd789")
        self.assertEqual(len(buffer[20:30]), 0)
        for wrong in (lambda: buffer[::2], lambda: ferry.Span(buffer, 8, 3)):
            self.assertRaises(ValueError, wrong)
        self.assertRaises(TypeError, lambda: buffer[1])

    async def test_rows(self):
        source = self.engine.buffer(bytes(range(16)))
        target = bytearray(4)
        into = self.engine.buffer(target)
        await self.engine.copy_rows(into[0:2], 2, source[1:3], 4, 2)
        self.assertEqual(target, bytes([1, 2, 5, 6]))

    async def test_blocks_by_lists_and_arrays(self):
        source = self.engine.buffer(bytes(range(64)))
        for kind in (list, tuple, lambda of: array.array("q", of), lambda of: array.array("I", of)):
            target = bytearray(12)
            await self.engine.copy_blocks(target, source, kind([8, 0, 4]), kind([0, 16, 32]), 4)
            self.assertEqual(target, bytes([16, 17, 18, 19, 32, 33, 34, 35, 0, 1, 2, 3]))
        target = bytearray(3)
        await self.engine.copy_blocks(target, source, [0, 1], [5, 9], [1, 2])
        self.assertEqual(target, bytes([5, 9, 10]))
        await self.engine.copy_blocks(target, source, [], [], 4)

    async def test_blocks_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not here")
        source = numpy.arange(1024, dtype=numpy.float32)
        target = numpy.zeros(1024, dtype=numpy.float32)
        order = numpy.random.default_rng(1).permutation(16)
        await self.engine.copy_blocks(target, source, numpy.arange(16) * 256, order * 256, 256)
        numpy.testing.assert_array_equal(target.reshape(16, 64), source.reshape(16, 64)[order])
        with self.assertRaisesRegex(TypeError, "dst_offsets"):
            self.engine.copy_blocks(target, source, numpy.arange(16.0), order, 256)

    async def test_wrong_blocks(self):
        source, target = self.engine.buffer(bytes(16)), bytearray(16)
        for to, of, sizes in (
            ([0, 1], [0], 1),
            ([17], [0], 1),
            ([0], [16], 1),
            ([-1], [0], 1),
            ([1 << 70], [0], 1),
            (array.array("q", [-1]), [0], 1),
        ):
            with self.assertRaises(ValueError):
                self.engine.copy_blocks(target, source, to, of, sizes)
        for wrong in ("a", [0.5], array.array("d", [0])):
            with self.assertRaises(TypeError):
                self.engine.copy_blocks(target, source, wrong, [0], 1)

    async def test_pairs(self):
        source, target = self.engine.buffer(b"abcdef"), self.engine.buffer(bytearray(6))
        await self.engine.copy_pairs([(target[4:6], source[0:2]), (target[0:3], source[3:6])])
        self.assertEqual(bytes(target), b"def\0ab")
        for wrong in ([1], [(target,)], [(target, b"abcdef")]):
            self.assertRaises(TypeError, self.engine.copy_pairs, wrong)

    async def test_large_batch(self):
        count = 10000
        source, target = os.urandom(count * 8), bytearray(count * 8)
        offsets = array.array("Q", range(0, count * 8, 8))
        await self.engine.copy_blocks(target, source, offsets, offsets, 8)
        self.assertEqual(bytes(target), source)

    async def test_many_under_way(self):
        asyncio.get_running_loop().set_debug(False)  # which takes a millisecond for a task
        promise = self.engine.promise()
        count = 17000  # more than the queue of an event loop has room for
        source, target = self.engine.buffer(os.urandom(count)), self.engine.buffer(bytearray(count))

        async def one(i):
            await self.engine.copy(target[i : i + 1], source[i : i + 1], after=promise.future)

        tasks = [asyncio.ensure_future(one(i)) for i in range(count)]
        await asyncio.sleep(0)
        promise.resolve()
        await asyncio.gather(*tasks)
        self.assertEqual(bytes(target), bytes(source))


class Unsure:
    def __bool__(self):
        raise RuntimeError("unsure")


class Options(EngineCase):
    async def test_after_and_accesses(self):
        promise = self.engine.promise()
        buffer = self.engine.allocate(1)
        first = self.engine.nop(after=[promise.future], writes=buffer)
        second = self.engine.nop(reads=[buffer[0:1]] * 9, after=(first,) * 6)
        self.assertFalse(second.done())
        promise.resolve()
        await second
        self.assertTrue(first.done())

    async def test_all_any_drain(self):
        promises = [self.engine.promise() for _ in range(2)]
        futures = [promise.future for promise in promises]
        both, one = self.engine.all(futures), self.engine.any(futures)
        promises[0].resolve(b"x")
        await one
        self.assertFalse(both.done())
        promises[1].resolve()
        await both
        await self.engine.drain()
        await self.engine.writable()
        self.assertRaises(TypeError, self.engine.all, [1])

    async def test_drain_does_not_wait_for_what_tasks_await(self):
        promise = self.engine.promise()
        waiting = asyncio.ensure_future(self.await_it(promise.future))
        await asyncio.sleep(0)
        await self.engine.drain()
        promise.resolve(b"late")
        self.assertEqual(await waiting, b"late")

    async def await_it(self, future):
        return await future

    async def test_labels_and_user_data_are_in_dumps(self):
        promise = self.engine.promise()
        held = self.engine.nop(after=promise.future, label="hélas", user_data=77, priority=1)
        nodes = json.loads(self.engine.dump())["nodes"]
        self.assertEqual([node["label"] for node in nodes], ["hélas"])
        promise.resolve()
        await held

    async def test_untracked(self):
        promise = self.engine.promise()
        block = self.engine.allocate(8)
        user = self.engine.nop(after=promise.future, writes=block)
        target = bytearray(4)
        self.assertFalse(self.engine.copy(bytearray(4), block[0:4], untracked=False).done())
        await self.engine.copy(target, block[0:4], untracked=True)
        held = self.engine.nop(after=promise.future, reads=block, untracked=1)
        nodes = json.loads(self.engine.dump())["nodes"]
        self.assertEqual([node["flags"] for node in nodes if "flags" in node], [["untracked"]])
        self.assertFalse(user.done())
        promise.resolve()
        await self.engine.all([user, held])

    async def test_timeout(self):
        promise, _, copied = self.held()
        late = self.engine.nop(after=promise.future, timeout=0, label="late")
        with self.assertRaises(ferry.DeadlineError) as caught:
            await late
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertEqual((caught.exception.op, caught.exception.label), (late.id, "late"))
        with self.assertRaises(ferry.DeadlineError):
            await self.engine.nop(after=promise.future, deadline_ns=self.engine.deadline_in(-1))
        promise.resolve()
        await copied

    async def test_wrong_options(self):
        target = bytearray(8)
        for error, options in (
            (TypeError, {"nonsense": 1}),
            (TypeError, {"after": [1]}),
            (TypeError, {"after": 1}),
            (TypeError, {"reads": b"12"}),
            (TypeError, {"label": 1}),
            (ValueError, {"label": "a\0b"}),
            (ValueError, {"priority": 2}),
            (ValueError, {"user_data": -1}),
            (ValueError, {"user_data": 1 << 64}),
            (TypeError, {"timeout": "soon"}),
            (ValueError, {"timeout": float("nan")}),
            (ValueError, {"deadline_ns": 1 << 63}),
            (RuntimeError, {"untracked": Unsure()}),
        ):
            with self.assertRaises(error, msg=str(options)):
                self.engine.copy(target, b"12345678", **options)
        self.assertRaises(TypeError, self.engine.copy, target)
        self.assertRaises(TypeError, self.engine.copy, target, target, target)
        self.assertRaises(TypeError, self.engine.copy, target, 5)
        await self.engine.copy(target, b"12345678", timeout=1e300)


class Failures(EngineCase):
    async def test_each_status_has_a_class(self):
        kinds = {kind.status: kind for kind in ferry.FerryError.__subclasses__()}
        for name, status in _core.STATUSES.items():
            if name != "FERRY_OK":
                self.assertIn(status, kinds, name)
                self.assertIn(kinds[status].__name__, ferry.__all__)

    async def test_refused_at_once(self):
        with self.assertRaisesRegex(ferry.InvalidError, "size"):
            self.engine.copy(bytearray(2), b"abc")
        other = ferry.Engine(host_devices=1)
        buffer = other.allocate(1)
        with self.assertRaises(ferry.InvalidError):
            self.engine.copy(buffer, b"a")
        with self.assertRaises(ferry.InvalidError):
            self.engine.nop(after=other.nop())
        await other.close()

    async def test_cause_chain(self):
        promise, _, copied = self.held()
        second = self.engine.nop(after=copied)
        promise.fail("the disk is on fire", -1000)
        with self.assertRaises(ferry.DependencyError) as caught:
            await second
        cause = caught.exception.__cause__
        self.assertIsInstance(cause, ferry.FerryError)
        self.assertEqual((cause.status, cause.message), (-1000, "the disk is on fire"))
        self.assertIsInstance(copied.exception(), ferry.DependencyError)

    async def test_poison(self):
        buffer = self.engine.allocate(4)
        with self.assertRaises(ferry.DependencyError):
            broken = self.engine.promise()
            self.engine.copy(buffer, b"abcd", after=broken.future)
            broken.release()
            await self.engine.copy(bytearray(4), buffer)
        buffer.define()
        await self.engine.copy(bytearray(4), buffer)

    async def test_pending(self):
        promise, _, copied = self.held()
        self.assertRaises(ferry.PendingError, copied.result)
        self.assertRaises(ferry.PendingError, copied.exception)
        self.assertEqual(copied.status, "FERRY_PENDING")
        self.assertIn("FERRY_PENDING", repr(copied))
        promise.resolve()
        await copied
        self.assertIs(copied.engine, self.engine)

    async def test_room(self):
        small = ferry.Engine(host_devices=1, max_nodes=8)
        promise = small.promise()
        held = []
        with self.assertRaises(ferry.AgainError):
            for _ in range(9):
                held.append(small.nop(after=promise.future))
        # No room for a nop behind it: the future is awaited all the same.
        waiting = asyncio.ensure_future(self.await_it(held[-1]))
        await asyncio.sleep(0)
        promise.resolve()
        await waiting
        del held
        await small.writable()
        await small.nop()
        await small.close()

    async def await_it(self, future):
        return await future

    async def test_objects_have_no_constructors(self):
        for kind in (ferry.Future, ferry.Promise, ferry.Buffer, _core.Group):
            self.assertRaises(TypeError, kind)
        self.assertRaises(TypeError, ferry.Engine, nonsense=1)
        self.assertRaises(TypeError, _core.Engine, 1)
        self.assertRaises(ValueError, ferry.Engine, max_nodes=-1)
        self.assertRaises(ferry.InvalidError, ferry.Engine, host_devices=65)
        self.assertRaises(TypeError, _core.Completions, 1)

    async def test_devices(self):
        self.assertEqual(self.engine.devices, ("host:0", "host:1"))
        self.assertEqual(self.engine.open_device("host:1"), "host:1")
        self.assertRaises(ferry.InvalidError, self.engine.open_device, "nonsense")
        self.assertRaises(ferry.NotFoundError, self.engine.allocate, 1, device="host:7")
        self.assertRaises(ferry.NotFoundError, self.engine.record_event, "cuda:0", 0)
        self.assertRaises(ferry.UnsupportedError, self.engine.record_event, "host:0", 0)
        self.assertRaises(ValueError, self.engine.allocate, 1, kind="marble")
        self.assertRaises(ferry.UnsupportedError, self.engine.allocate, 1, kind="pinned")
        shared = self.engine.allocate(5000, kind="shared")
        memoryview(shared)[4999] = 7
        self.assertEqual(bytes(shared)[4998:], b"\0\7")


class Promises(EngineCase):
    async def test_value(self):
        for value in (b"", b"x", bytes(65536)):
            promise = self.engine.promise()
            future = promise.future
            promise.resolve(value)
            self.assertEqual(await future, value)
            self.assertRaises(ferry.InvalidError, promise.resolve)
        self.assertRaises(ValueError, self.engine.promise().resolve, bytes(65537))

    async def test_dropped(self):
        future = self.engine.promise().future
        with self.assertRaises(ferry.BrokenPromiseError):
            await future
        promise = self.engine.promise()
        promise.release()
        promise.release()
        for wrong in (promise.resolve, promise.fail, lambda: promise.future):
            self.assertRaises(ValueError, wrong)

    async def test_cancelled(self):
        promise = self.engine.promise()
        future = promise.future
        future.cancel()
        with self.assertRaises(ferry.CancelledError):
            await future
        self.assertRaises(ferry.CancelledError, promise.resolve)
        self.assertRaises(ValueError, promise.fail, "no failure", 0)

    async def test_wait_in_a_thread(self):
        promise = self.engine.promise()
        future = promise.future
        self.assertFalse(future.wait(0))
        self.assertFalse(future.wait(timeout=-1))
        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(None, future.wait)
        promise.resolve()
        self.assertTrue(await waiting)


class Calls(EngineCase):
    async def test_plain_function(self):
        called = self.engine.call(lambda a, b: a + b, 2, 3, label="sum")
        self.assertEqual(await called, 5)
        self.assertEqual(called.result(), 5)

    async def test_coroutine_holds_its_spans(self):
        block = self.engine.allocate(3)
        begun, go = asyncio.Event(), asyncio.Event()

        async def fill():
            begun.set()
            await go.wait()
            memoryview(block)[:] = b"abc"
            return "filled"

        filled = self.engine.call(fill, writes=block)
        target = bytearray(3)
        copied = self.engine.copy(target, block)
        await begun.wait()
        self.assertFalse(copied.done())
        go.set()
        self.assertEqual(await filled, "filled")
        await copied
        self.assertEqual(target, b"abc")

    async def test_executor(self):
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            thread = await self.engine.call(threading.current_thread, executor=executor)
            self.assertIn("ThreadPoolExecutor", thread.name)
            with self.assertRaises(ferry.FailedError) as caught:
                await self.engine.call(int, "x", executor=executor)
            self.assertIsInstance(caught.exception.__cause__, ValueError)

    async def test_failure(self):
        def fail():
            raise KeyError("nothing")

        async def fail_later():
            await asyncio.sleep(0)
            fail()

        for function in (fail, fail_later):
            block = self.engine.allocate(1)
            failed = self.engine.call(function, writes=block)
            with self.assertRaisesRegex(ferry.FailedError, "KeyError: 'nothing'") as caught:
                await failed
            self.assertIsInstance(caught.exception.__cause__, KeyError)
            with self.assertRaises(ferry.DependencyError):
                await self.engine.copy(bytearray(1), block)

    async def test_never_begun(self):
        promise, _, copied = self.held()
        ran = []
        called = self.engine.call(ran.append, 1, after=copied)
        called.cancel()
        with self.assertRaises(ferry.CancelledError):
            await called
        await called.quiet()
        promise.resolve()
        await copied
        self.assertEqual(ran, [])

    async def test_cancel_reaches_the_coroutine(self):
        begun, ended = asyncio.Event(), asyncio.Event()

        async def forever():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        called = self.engine.call(forever)
        await begun.wait()
        called.cancel()
        with self.assertRaises(ferry.CancelledError):
            await called
        await called.quiet()
        self.assertTrue(ended.is_set())

    async def test_deadline_reaches_the_coroutine(self):
        events = []

        async def forever():
            events.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                events.append("ended")

        called = self.engine.call(forever, timeout=0.02)
        with self.assertRaises(ferry.DeadlineError):
            await called
        await called.quiet()
        self.assertIn(events, ([], ["begun", "ended"]))  # a busy machine may not begin in time

    async def test_from_another_thread(self):
        loop_thread = threading.get_ident()
        futures = []

        def submit():
            futures.append(self.engine.call(threading.get_ident))
            futures[0].wait()

        await asyncio.get_running_loop().run_in_executor(None, submit)
        self.assertEqual(futures[0].result(), loop_thread)

    async def test_refused(self):
        self.assertRaises(TypeError, self.engine.call, int, nonsense=1)
        self.assertRaises(TypeError, self.engine._call, 1, 2)
        await self.engine.close()
        self.assertRaises(ferry.ShutdownError, self.engine.nop)


class Figures(EngineCase):
    async def test_counts(self):
        async with ferry.Engine(host_devices=2, stats=1) as engine:
            self.assertEqual(engine.stats().entered, 0)
            async with engine.scope() as scope:
                await engine.copy(engine.allocate(64), b"f" * 64, scope=scope)
                promise = engine.promise()
                held = engine.nop(after=promise.future, scope=scope)
                held.cancel()
                with self.assertRaises(ferry.CancelledError):
                    await held
                promise.resolve()
            await engine.drain()
            stats, own = engine.stats(), scope.stats()
            self.assertEqual(own.resolved_by_kind, {"copy": 1, "nop": 1})
            self.assertEqual(own.bytes_by_way, {"host": 64})
            self.assertEqual(own.failures, {"FERRY_E_CANCELLED": 1})
            self.assertEqual((own.entered, own.resolved, own.in_flight), (2, 2, 0))
            self.assertGreater(stats.resolved, own.resolved)
            self.assertEqual(sum(stats.latency_counts), stats.latency_count)
            self.assertGreater(stats.latency_every, 0)

    async def test_nobody_counts(self):
        self.assertRaises(ferry.UnsupportedError, self.engine.stats)
        async with self.engine.scope() as scope:
            self.assertRaises(ferry.UnsupportedError, scope.stats)
