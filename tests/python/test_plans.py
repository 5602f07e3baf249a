# SPDX-License-Identifier: Apache-2.0
"""Plans, in one engine and between two members of this process."""

import array
import asyncio
import concurrent.futures
import gc
import threading
import unittest
import weakref

import ferry
from support import EngineCase, PairCase, run_child


class Plans(EngineCase):
    async def test_posts(self):
        source, between, target = bytearray(b"abcdefgh"), bytearray(8), bytearray(8)
        operations = self.engine.operations()
        self.assertEqual(operations.copy(between, source), 0)
        self.assertEqual(operations.copy(target, between), 1)  # the same bytearray: after it
        self.assertEqual(operations.nop(), 2)
        self.assertEqual(len(operations), 3)
        plan = self.engine.plan(operations)
        info = plan.describe()
        self.assertEqual((info.op_count, info.wait_count, info.size_bytes), (3, 1, 16))
        self.assertEqual(repr(plan), "<ferry.Plan, 3 operations>")
        self.assertEqual(info.graph_count, 0)  # nothing of it is on a GPU
        for error, arguments in (
            (ferry.FerryError, ("host:0",)),
            (ferry.NotFoundError, ("cuda:7", 1)),
            (TypeError, ()),
            (TypeError, (0,)),
        ):
            with self.assertRaises(error):
                plan.enqueue(*arguments)
        self.assertIs(plan.engine, self.engine)
        self.assertIsNone(await plan.post())
        self.assertEqual(target, b"abcdefgh")
        source[:] = b"01234567"
        for none in ([], (), array.array("I")):  # and not all
            await plan.post(picks=none)
        self.assertEqual((between, target), (b"abcdefgh", b"abcdefgh"))
        await plan.post(picks=[0])
        self.assertEqual((between, target), (b"01234567", b"abcdefgh"))
        for picks in ((2, 1), array.array("I", [1]), array.array("q", [1, 0]), range(3)):
            target[:] = bytes(8)
            await plan.post(picks=picks, label="some", priority=1, user_data=7)
            self.assertEqual(target, b"01234567")
        operations.copy(target, b"later...")  # is of the next plan alone
        await plan.post()
        self.assertEqual(target, b"01234567")
        await self.engine.plan(operations).post(picks=[3])
        self.assertEqual(target, b"later...")
        self.assertIsNone(await self.engine.plan(self.engine.operations()).post())

    async def test_a_post_is_an_operation(self):
        block, target = self.engine.allocate(8), bytearray(8)
        promise = self.engine.promise()
        operations = self.engine.operations()
        operations.copy(block[0:4], b"left")
        operations.copy(block[4:8], b"over")
        plan = self.engine.plan(operations)
        posted = plan.post(after=promise.future)
        copied = self.engine.copy(target, block)
        self.assertFalse(posted.done() or copied.done())
        promise.resolve()
        await copied
        self.assertEqual(target, b"leftover")
        never = self.engine.promise()
        with self.assertRaises(ferry.DeadlineError):
            await plan.post(after=never.future, timeout=0.001)
        async with self.engine.scope() as scope:
            cut = plan.post(after=never.future, scope=scope)
            scope.cancel()
        self.assertEqual(cut.status, "FERRY_E_CANCELLED")

        async def wait():
            await plan.post(picks=[1], after=never.future)

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await plan.post()  # writes all that was poisoned
        await self.engine.copy(target, block)

    async def test_blocks(self):
        pages, cache = bytearray(range(64)), bytearray(64)
        operations = self.engine.operations()
        operations.nop()
        indices = operations.copy_blocks(cache, pages, range(0, 64, 4), range(60, -1, -4), 4)
        self.assertEqual(indices, range(1, 17))
        self.assertEqual(operations.copy_blocks(cache, pages, [], [], 4), range(17, 17))
        plan = self.engine.plan(operations)
        await plan.post(picks=[indices[0], indices[15]])
        self.assertEqual(list(cache), [60, 61, 62, 63] + [0] * 57 + [1, 2, 3])
        await plan.post()
        self.assertEqual([cache[at] for at in range(0, 64, 4)], list(range(60, -1, -4)))
        many = self.engine.operations()
        zeros = array.array("q", [0]) * 20000
        many.copy_blocks(bytearray(20000), b"x", range(20000), zeros, 1)
        self.assertEqual(len(many), 20000)
        await self.engine.plan(many).post(picks=range(0, 20000, 2))

    async def test_wrong_arguments(self):
        operations = self.engine.operations()
        block, closed = self.engine.allocate(8), self.engine.allocate(8)
        closed.close()
        for error, arguments in (
            (BufferError, (b"read-only", bytes(9))),
            (ValueError, (closed, block)),
            (ValueError, (bytearray(), b"")),
            (TypeError, (17, block)),
            (TypeError, (block,)),
        ):
            with self.assertRaises(error):
                operations.copy(*arguments)
        for error, arguments in (
            (ValueError, (block, bytes(8), [0, 1], [0], 4)),
            (ValueError, (block, bytes(8), [0, 5], [0, 1], 4)),
            (ValueError, (block, bytes(8), [-1], [0], 4)),
            (TypeError, (block, bytes(8), ["0"], [0], 4)),
        ):
            with self.assertRaises(error):
                operations.copy_blocks(*arguments)
        for method in (operations.get, operations.get_blocks, operations.send):
            with self.assertRaises(TypeError):
                method(block)
        self.assertRaises(TypeError, operations.get, block, 0, block)
        self.assertRaises(TypeError, operations.send, block, 0, block)
        self.assertRaises(TypeError, operations.send_notice, None, 0, b"")
        self.assertRaises(TypeError, operations.copy, block, b"12345678", nonsense=1)
        self.assertRaises(TypeError, ferry.Operations)
        self.assertRaises(TypeError, ferry.Operations, 1)
        self.assertRaises(TypeError, ferry.Plan)
        self.assertRaises(TypeError, ferry.Plan._make, [])
        self.assertEqual(len(operations), 0)
        other = ferry.Engine(host_devices=1)
        self.assertRaises(ValueError, other.plan, operations)
        other.shutdown()

    async def test_operations_that_a_plan_refuses(self):
        block = self.engine.allocate(8)
        for refused in (
            lambda operations: operations.copy(block, b"short"),
            lambda operations: operations.copy(
                self.engine.buffer(bytearray(8), readonly=True), block
            ),
            lambda operations: operations.nop(after=self.engine.nop()),
            lambda operations: operations.nop(timeout=1),
            lambda operations: operations.nop(user_data=1),
        ):
            operations = self.engine.operations()
            operations.nop()
            refused(operations)
            with self.assertRaisesRegex(ferry.InvalidError, "operation 1"):
                self.engine.plan(operations)

    async def test_wrong_picks(self):
        operations = self.engine.operations()
        target = bytearray(8)
        operations.copy(target, b"12345678", label="move", priority=1, untracked=True)
        operations.nop(reads=[self.engine.allocate(8)])
        plan = self.engine.plan(operations)
        for error, picks in (
            (ferry.InvalidError, [2]),
            (ferry.InvalidError, [0, 0]),
            (ferry.InvalidError, [2**32]),  # and not 0
            (ferry.InvalidError, [0, 2**63]),
            (ValueError, [-1]),
            (ValueError, [2**64]),
            (ValueError, array.array("q", [-1])),
            (TypeError, 0),
            (TypeError, ["0"]),
            (TypeError, array.array("H", [0])),
            (TypeError, b"\0"),
        ):
            with self.assertRaises(error):
                plan.post(picks=picks)
        self.assertRaises(TypeError, plan.post, [0])
        self.assertRaises(TypeError, plan.post, pick=[0])
        self.assertEqual(target, bytes(8))

    async def test_memory_is_held(self):
        source, target = bytearray(b"held"), bytearray(4)
        operations = self.engine.operations()
        buffer = self.engine.buffer(target)
        operations.copy(buffer, source)
        buffer.close()  # the list keeps what it is of
        plan = self.engine.plan(operations)
        del operations
        gc.collect()
        self.assertRaises(BufferError, source.append, 1)
        self.assertRaises(BufferError, target.append, 1)
        await plan.post()
        self.assertEqual(target, b"held")
        target[:] = bytes(4)
        promise = self.engine.promise()
        posted = plan.post(after=promise.future)
        plan.close()
        plan.close()
        self.assertTrue(plan.closed)
        self.assertRaisesRegex(ValueError, "closed", plan.post)
        self.assertRaisesRegex(ValueError, "closed", plan.describe)
        self.assertRaisesRegex(ValueError, "closed", plan.enqueue, "host:0")
        self.assertEqual(repr(plan), "<ferry.Plan, closed>")
        self.assertRaises(BufferError, target.append, 1)  # the post keeps it
        promise.resolve()
        await posted
        self.assertEqual(target, b"held")

        def resized():
            try:
                source.append(1)
                target.append(1)
            except BufferError:
                return False
            return True

        await self.until(resized)
        with self.engine.plan(self.engine.operations()) as plan:
            await plan.post()
        self.assertTrue(plan.closed)

    async def test_temporary_exporters(self):
        """Each object is its own, though another one had its address."""
        operations = self.engine.operations()
        targets = [bytearray(4) for _ in range(64)]
        for i, target in enumerate(targets):
            operations.copy(memoryview(target)[0:2], bytes([i, i]))
            operations.copy(memoryview(target)[2:4], bytearray([i + 1, i + 1]))
        await self.engine.plan(operations).post()
        self.assertEqual(targets, [bytes([i, i, i + 1, i + 1]) for i in range(64)])

    async def test_list_that_grows_while_it_reads(self):
        operations = self.engine.operations()
        block = self.engine.buffer(bytearray(8))

        class Offset:
            def __index__(offset):
                operations.copy(block[0:1], b"x")
                if not block.closed:
                    block.close()
                return 0

        self.assertEqual(operations.copy_blocks(block, b"yz", [Offset()], [1], 1), range(1, 2))
        self.assertEqual(len(operations), 2)
        await self.engine.plan(operations).post()

        plan = self.engine.plan(operations)

        class Pick:
            def __index__(pick):
                plan.close()
                return 0

        self.assertRaisesRegex(ValueError, "closed", plan.post, picks=[Pick()])

    async def test_closed_engine(self):
        operations = self.engine.operations()
        operations.nop()
        plan = self.engine.plan(operations)
        await self.engine.close()
        self.assertRaises(ferry.ShutdownError, plan.post)
        self.assertRaises(ferry.ShutdownError, self.engine.plan, operations)
        self.assertEqual(plan.describe().op_count, 1)

    async def test_threads(self):
        """Posts of one plan in several threads, which is closed beside them."""
        blocks, errors, closed = bytearray(4096), [], []
        operations = self.engine.operations()
        operations.copy_blocks(blocks, bytes([1]) * 4096, range(0, 4096, 64), 0, 64)
        plan = self.engine.plan(operations)

        def work(part):
            try:
                for number in range(10**6):
                    posted = plan.post(picks=range(part * 16, part * 16 + 16))
                    assert posted.wait()
                    posted.result()
            except ValueError:
                closed.append(part)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            await plan.post()
        plan.close()
        for thread in threads:
            thread.join()
        self.assertEqual((errors, sorted(closed)), ([], [0, 1, 2, 3]))
        self.assertEqual(blocks, bytes([1]) * 4096)


class Functions(EngineCase):
    async def test_each_post_runs_them(self):
        block, target, seen = self.engine.allocate(4), bytearray(4), []
        source = bytearray(b"1111")

        async def answer(*arguments):
            await asyncio.sleep(0)
            seen.append((arguments, bytes(block)))

        operations = self.engine.operations()
        operations.copy(block, source)
        self.assertEqual(operations.call(answer, "a", 2, reads=block, label="look"), 1)
        memory = memoryview(block)
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            fill = lambda: memory.__setitem__(slice(0, 2), b"by")
            operations.call(fill, executor=executor, writes=block[0:2], priority=1)
            operations.copy(target, block)
            plan = self.engine.plan(operations)
            self.assertEqual(plan.describe().op_count, 4)
            for text in (b"1111", b"2222", b"3333"):
                source[:] = text
                await plan.post()
                self.assertEqual(seen.pop(), (("a", 2), text))
                self.assertEqual(target, b"by" + text[2:])
        await plan.post(picks=[1])
        self.assertEqual(seen, [(("a", 2), b"by33")])
        memory.release()

    async def test_posts_at_once(self):
        """Each post has a run of its own, and a cancelled one ends its own alone."""
        numbers, ends, began = iter(range(3)), [], asyncio.Queue()
        gates = [asyncio.Event() for _ in range(3)]

        async def wait():
            number = next(numbers)
            began.put_nowait(number)
            try:
                await gates[number].wait()
                ends.append(number)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        operations = self.engine.operations()
        operations.call(wait)
        plan = self.engine.plan(operations)
        posts = []
        for number in range(3):
            posts.append(plan.post())
            self.assertEqual(await began.get(), number)
        posts[1].cancel()
        with self.assertRaises(ferry.CancelledError):
            await posts[1]
        await self.until(lambda: ends == ["cancelled"])
        for number in (2, 0):
            gates[number].set()
            await posts[number]
        self.assertEqual(ends, ["cancelled", 2, 0])
        plan.close()

    async def test_exceptions(self):
        target = bytearray(4)

        def fail(text):
            raise ValueError(text)

        async def fail_later():
            await asyncio.sleep(0)
            raise KeyError("later")

        async def leave():
            raise asyncio.CancelledError

        block = self.engine.allocate(4)
        operations = self.engine.operations()
        for function, *arguments in ((fail, "broken"), (fail_later,), (leave,), (int, "x")):
            operations.call(function, *arguments, writes=block)
        operations.copy(target, block)
        plan = self.engine.plan(operations)
        for pick, kind, text in (
            (0, ferry.FailedError, "ValueError: broken"),
            (1, ferry.FailedError, "KeyError: 'later'"),
            (2, ferry.CancelledError, "the function was cancelled"),
            (3, ferry.FailedError, "ValueError: invalid literal"),
        ):
            with self.assertRaises(ferry.DependencyError) as caught:
                await plan.post(picks=[pick])
            self.assertIs(type(caught.exception.__cause__), kind)
            self.assertIn(text, str(caught.exception.__cause__))
        with self.assertRaises(ferry.DependencyError):
            await plan.post()
        self.assertEqual(target, bytes(4))

    async def test_they_live_as_long_as_posts(self):
        class Function:
            def __call__(self):
                ran.append(1)

        ran = []
        function = Function()
        gone = weakref.ref(function)
        operations = self.engine.operations()
        operations.call(function)
        del function
        plan, promise = self.engine.plan(operations), self.engine.promise()
        other = self.engine.plan(operations)
        del operations
        posted = plan.post(after=promise.future)
        plan.close()
        other.close()
        del plan, other
        gc.collect()
        self.assertIsNotNone(gone())
        promise.resolve()
        await posted
        self.assertEqual(ran, [1])
        await self.until(lambda: gone() is None)
        operations = self.engine.operations()
        function = Function()
        gone = weakref.ref(function)
        operations.call(function)  # of no plan
        del operations, function
        await self.until(lambda: gone() is None)

    async def test_wrong_arguments(self):
        operations = self.engine.operations()
        for arguments, options in (
            ((), {}),
            ((int,), {"reads": 7}),
            ((int,), {"after": ()}),
            ((int,), {"priority": "1"}),
        ):
            with self.assertRaises(TypeError):
                operations.call(*arguments, **options)
        self.assertRaises(ValueError, operations.call, int, priority=2)
        self.assertRaises(TypeError, operations._call, None, None)
        self.assertRaises(TypeError, operations._call, 1)
        self.assertEqual(len(operations), 0)
        self.assertIs(operations.engine, self.engine)

    async def test_closed_engine(self):
        ran = []
        operations = self.engine.operations()
        operations.call(ran.append, 1)
        with self.engine.plan(operations) as plan:
            posted = plan.post(after=self.engine.promise().future)
            await self.engine.close()
            self.assertRaises(ferry.ShutdownError, plan.post)
        self.assertEqual((ran, posted.done()), ([], True))


class PlansOfMembers(PairCase):
    async def test_all_kinds(self):
        memory, received = bytearray(range(64)), bytearray(4)
        own = await self.owner.open_window(memory, "w", rights="both")
        receives = self.engine.operations()
        receives.recv(self.owner, 1, received, tag=5)
        receives = self.engine.plan(receives)
        local, words = bytearray(16), bytearray(b"taken")
        operations = self.other_engine.operations()
        window = await self.other.find_window(0, "w")
        gets = operations.get_blocks(window, [32, 0], local, [0, 8], 4)
        operations.get(window, 60, self.other_engine.buffer(bytearray(4)))
        puts = operations.put_blocks(window, [40, 44], b"abcdefgh", [4, 0], 4)
        operations.put(window, 0, b"put.")
        operations.send(self.other, 0, b"sent", tag=5)
        told = operations.send_notice(self.other, 0, words)
        words[:] = bytes(5)  # the list has a copy
        self.assertEqual((gets, puts, told), (range(0, 2), range(3, 5), 7))
        plan = self.other_engine.plan(operations)
        del window, operations  # the plan keeps the window open
        gc.collect()
        for _ in range(3):
            there, here = receives.post(), plan.post()
            self.assertEqual(await self.owner.next_notice(), (1, b"taken"))
            await here
            await there
            self.assertEqual(received, b"sent")
            self.assertEqual(memory[:4] + memory[40:48], b"put.efghabcd")
            self.assertEqual(list(local[0:4]), [32, 33, 34, 35])
        local[:] = bytes(16)
        await plan.post(picks=[1])
        self.assertEqual(local, bytes(8) + b"put.\0\0\0\0")
        await own.close()
        with self.assertRaises(ferry.DependencyError) as caught:
            await plan.post()
        self.assertIsInstance(caught.exception.__cause__, ferry.NotFoundError)

    async def test_window_goes_with_its_plan(self):
        own = await self.owner.open_window(b"12345678", "w")
        operations = self.other_engine.operations()
        window = await self.other.find_window(0, "w")
        operations.get(window, 0, bytearray(8))
        gone = weakref.ref(window)
        del window
        with self.other_engine.plan(operations) as plan:
            del operations
            await plan.post()
            self.assertIsNotNone(gone())
        self.assertIsNone(gone())
        await own.close()

    async def test_wrong_arguments(self):
        own = await self.owner.open_window(bytearray(8), "w")
        window = await self.other.find_window(0, "w")
        operations = self.other_engine.operations()
        for error, arguments in (
            (ValueError, (window, -1, bytearray(8))),
            (TypeError, (window, 0.5, bytearray(8))),
            (BufferError, (window, 0, b"12345678")),
            (TypeError, (window, 0, 17)),
        ):
            with self.assertRaises(error):
                operations.get(*arguments)
        for error, arguments in (
            (ValueError, (self.other, -1, b"1")),
            (TypeError, (self.other, "1", b"1")),
            (TypeError, (window, 0, b"1")),
        ):
            with self.assertRaises(error):
                operations.send(*arguments)
            with self.assertRaises(error):
                operations.send_notice(*arguments)
        self.assertRaises(TypeError, operations.send, self.other, 0, b"1", tag="1")
        self.assertRaises(TypeError, operations.send_notice, self.other, 0, "text")
        self.assertRaises(ValueError, operations.put_blocks, window, [0, 1], b"1234", [0], 1)
        for refused in (
            lambda operations: operations.put(window, 0, b"no right"),
            lambda operations: operations.get(window, 1, bytearray(8)),
            lambda operations: operations.get(own, 0, bytearray(8)),
            lambda operations: operations.send_notice(self.other, 0, bytes(4097)),
        ):
            operations = self.other_engine.operations()
            refused(operations)
            with self.assertRaisesRegex(ferry.InvalidError, "operation 0"):
                self.other_engine.plan(operations)
        operations = self.other_engine.operations()
        operations.send_notice(self.other, 0, b"late")
        plan = self.other_engine.plan(operations)
        await self.other.leave()
        self.assertRaisesRegex(ValueError, "group was closed", self.other_engine.plan, operations)
        self.assertRaises(ValueError, operations.send_notice, self.other, 0, b"late")
        with self.assertRaises((ferry.DeadError, ferry.DependencyError)):
            await plan.post()


class Ends(unittest.TestCase):
    def test_interpreter_ends_with_plans(self):
        code = """
import asyncio, ferry
async def main():
    global kept
    engine = ferry.Engine(host_devices=1)
    operations = engine.operations()
    operations.copy(bytearray(1 << 20), bytes(1 << 20))
    operations.call(asyncio.sleep, 3600)
    operations.call(print, "twice")
    plan = engine.plan(operations)
    kept = [engine, operations, plan, [plan.post() for _ in range(16)],
            plan.post(after=engine.promise().future)]
asyncio.run(main())
"""
        run_child(code)

    def test_loop_that_has_ended(self):
        """What was to run in it fails, and nobody waits for it."""
        code = """
import asyncio, ferry
engine = ferry.Engine(host_devices=1)
async def main():
    operations = engine.operations()
    operations.call(print, "never")
    return engine.plan(operations)
plan = asyncio.run(main())
posts = [plan.post(), engine.nop()]
posts[1].wait()
engine.shutdown()
print(posts[0].done(), posts[0].status != "FERRY_OK", posts[1].status)
"""
        self.assertEqual(run_child(code), "True True FERRY_OK\n")

    def test_references(self):
        """What plans keep is gone after them."""
        code = """
import asyncio, ferry, gc, sys
async def scene(engine, source, target):
    operations = engine.operations()
    operations.copy(target, source, label="copy", reads=[engine.allocate(8)])
    operations.copy_blocks(target, source, [0, 8], [8, 0], 8)
    operations.call(asyncio.sleep, 0)
    operations.call(lambda: source, reads=[engine.allocate(8)] * 5, label="function")
    try:
        operations.copy_blocks(target, source, [0, 60], [8, 0], 8)
    except ValueError:
        pass
    with engine.plan(operations) as plan:
        await plan.post()
        plan.cycle = plan, operations
        await plan.post(picks=[1])
    operations.copy(target, b"short")
    try:
        engine.plan(operations)
    except ferry.InvalidError:
        pass

async def main():
    source, target = bytearray(64), bytearray(64)
    base = [sys.getrefcount(each) for each in (source, target)]
    async with ferry.Engine(host_devices=1) as engine:
        counts = []
        for round in range(6):
            for _ in range(40):
                await scene(engine, source, target)
            gc.collect()
            # The memory goes when all is quiet; what stays for ever hangs here.
            while [sys.getrefcount(each) for each in (source, target)] != base:
                await engine.nop()
                await asyncio.sleep(0)
            gc.collect()
            counts.append((len(gc.get_objects()), sys.getrefcount(engine)))
    for part in range(2):
        held = [count[part] for count in counts[1:]]
        assert max(held) - min(held) <= (3 if part else 50), counts
    print("flat")

asyncio.run(main())
"""
        self.assertEqual(run_child(code), "flat\n")
