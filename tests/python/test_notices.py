# SPDX-License-Identifier: Apache-2.0
"""Notices between two members of this process."""

import array
import asyncio
import threading

import ferry
from support import PairCase

LARGEST = 4096
UNTAKEN = 256  # of one sender, with a receiver


class Notices(PairCase):
    async def test_data(self):
        words = bytearray(b"copied in the call")
        sent = self.owner.send_notice(1, words)
        words[:] = bytes(len(words))
        self.assertEqual(await self.other.next_notice(), (0, b"copied in the call"))
        self.assertIsNone(await sent)
        for data in (
            b"",
            b"\0\xff",
            bytes(LARGEST),
            memoryview(b"abcdef")[2:4],
            array.array("I", [1, 2]),
            self.engine.buffer(b"buffer"),
        ):
            self.owner.send_notice(1, data)
            self.other.send_notice(1, data)  # to itself
            expect = bytes(memoryview(data))
            taken = [await self.other.next_notice() for _ in range(2)]
            self.assertEqual([notice.data for notice in taken], [expect, expect])
            self.assertEqual({notice.rank for notice in taken}, {0, 1})

    async def test_wrong_arguments(self):
        send = self.owner.send_notice
        for error, arguments, options in (
            (ferry.InvalidError, (1, bytes(LARGEST + 1)), {}),
            (ferry.NotFoundError, (2, b""), {}),
            (ValueError, (-1, b""), {}),
            (TypeError, ("1", b""), {}),
            (TypeError, (1, "text"), {}),
            (TypeError, (1, 17), {}),
            (BufferError, (1, memoryview(b"abcd")[::2]), {}),
            (TypeError, (1,), {}),
            (TypeError, (1, b""), {"tag": 1}),
        ):
            with self.assertRaises(error):
                send(*arguments, **options)
        self.assertRaises(TypeError, self.owner.next_notice, timeout="long")
        with self.assertRaises(ferry.NotFoundError):
            self.engine.nop()._message()

    async def test_after_operations(self):
        promise = self.engine.promise()
        self.owner.send_notice(1, b"late", after=promise.future)
        self.owner.send_notice(1, b"early")
        self.assertEqual((await self.other.next_notice()).data, b"early")
        late = self.other.next_notice()
        self.assertFalse(late.done())
        promise.resolve()
        self.assertEqual((await late).data, b"late")
        failed = self.engine.promise()
        never = self.owner.send_notice(1, b"never", after=failed.future, label="never")
        failed.fail("the disk is on fire")
        with self.assertRaises(ferry.DependencyError) as caught:
            await never
        self.assertEqual(caught.exception.__cause__.message, "the disk is on fire")

    async def test_takers(self):
        """They get theirs in order; one that is cancelled, or late, takes none."""
        first, second = self.other.next_notice(), self.other.next_notice()
        cut = self.other.next_notice()
        last = self.other.next_notice()
        cut.cancel()
        with self.assertRaises(ferry.DeadlineError):
            await self.other.next_notice(timeout=0)
        with self.assertRaises(ferry.DeadlineError):
            await self.other.next_notice(timeout=0.001)
        for number in range(3):
            self.owner.send_notice(1, bytes([number]))
        self.assertEqual([(await each).data[0] for each in (first, second, last)], [0, 1, 2])
        with self.assertRaises(ferry.CancelledError):
            await cut

        async def take():
            return await self.other.next_notice()

        task = asyncio.ensure_future(take())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        taken = asyncio.ensure_future(take())
        await self.owner.send_notice(1, b"taken")
        self.assertEqual((await taken).data, b"taken")

    async def test_more_than_a_receiver_keeps(self):
        count = UNTAKEN + 64
        sent = [self.owner.send_notice(1, b"%d" % number) for number in range(count)]
        late = self.owner.send_notice(1, b"late", timeout=0.001)
        with self.assertRaises(ferry.DeadlineError) as caught:
            await late
        self.assertEqual(caught.exception.rank, 1)
        self.assertFalse(any(future.done() for future in sent))
        taken = [int((await self.other.next_notice()).data) for _ in range(count)]
        self.assertEqual(taken, list(range(count)))
        await self.engine.all(sent)

    async def test_members_that_go(self):
        next_there, next_here = self.other.next_notice(), self.owner.next_notice()
        await self.other.leave()
        with self.assertRaises(ferry.DeadError):
            await next_there
        with self.assertRaises((ferry.DeadError, ferry.PeerError)):
            await self.owner.send_notice(1, b"nobody")
        self.assertFalse(next_here.done())  # of any member, so also of this one
        self.assertRaises(ValueError, self.other.next_notice)
        self.assertRaises(ValueError, self.other.send_notice, 0, b"")
        await self.engine.close()
        self.assertEqual(next_here.status, "FERRY_E_SHUTDOWN")
        self.assertRaises(ferry.ShutdownError, self.owner.next_notice)

    async def test_group_that_closes_while_it_reads_arguments(self):
        class Number:
            def __index__(number):
                self.other._group._close()
                return 0

        self.assertRaises(ValueError, self.other.send_notice, Number(), b"")

    async def test_threads(self):
        errors = []

        def work(part):
            try:
                for number in range(100):
                    sent = self.owner.send_notice(1, bytes([part, number]))
                    assert sent.wait()
                    sent.result()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        seen = [0] * 4
        for _ in range(400):
            part, number = (await self.other.next_notice()).data
            self.assertEqual(number, seen[part])
            seen[part] += 1
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
