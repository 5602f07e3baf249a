# SPDX-License-Identifier: Apache-2.0
"""Open groups, and the events of groups, in this process."""

import asyncio
import contextlib

import ferry
from ferry import MemberState
from support import EngineCase, PairCase

SIZE = 3


class OpenGroup(EngineCase):
    def joining(self, engine, **options):
        options = {"kind": "open", "size": SIZE, "timeout": 60, **options}
        return engine.join(store=f"mem:{self.id()}", job="open", **options)

    @contextlib.asynccontextmanager
    async def comer(self, **options):
        async with ferry.Engine(host_devices=1) as engine:
            async with self.joining(engine, **options) as group:
                yield group

    async def test_coming_and_going(self):
        async with self.joining(self.engine) as group:
            self.assertEqual((group.rank, group.size), (0, SIZE))
            self.assertEqual(group.member(1).state, MemberState.ABSENT)
            number, met = 0, set()
            for round in range(3):
                next_event = group.next_event()
                self.assertFalse(next_event.done())
                async with self.comer() as other:
                    here = await next_event
                    self.assertEqual(here[:2], (MemberState.HERE, other.rank))
                    self.assertEqual(here.lost, 0)
                    self.assertGreater(here.number, number)
                    self.assertEqual(group.member(here.rank).incarnation, here.incarnation)
                    with self.assertRaises(ferry.InvalidError):
                        await other.barrier("all")
                    await asyncio.gather(
                        *(each.barrier(f"r{round}", [0, here.rank]) for each in (group, other))
                    )
                    notice = other.send_notice(0, b"share")
                    self.assertEqual(await group.next_notice(), (here.rank, b"share"))
                    await notice
                left = await group.next_event()
                self.assertEqual(
                    left, (MemberState.LEFT, here.rank, here.incarnation, 0, left.number)
                )
                self.assertGreater(left.number, here.number)
                number = left.number
                met.add(here.incarnation)
            self.assertEqual(len(met), 3)

    async def test_all_hear_the_same(self):
        async with self.joining(self.engine) as first, self.comer() as second:
            await first.next_event()
            async with self.comer() as third:
                here = await first.next_event()
                self.assertEqual(here.rank, third.rank)
                self.assertEqual(await second.next_event(), here)
                with self.assertRaises(ferry.FencedError):  # all ranks are taken
                    async with self.comer():
                        self.fail("it has joined")
            self.assertEqual(await second.next_event(), await first.next_event())

    async def test_takers(self):
        async with self.joining(self.engine) as group:
            with self.assertRaises(ferry.DeadlineError):
                await group.next_event(timeout=0.001)
            cut, first, second = (group.next_event() for _ in range(3))
            cut.cancel()
            async with self.comer():
                self.assertEqual((await first).state, MemberState.HERE)
            self.assertEqual((await second).state, MemberState.LEFT)
            with self.assertRaises(ferry.CancelledError):
                await cut

            async def take():
                return await group.next_event()

            task = asyncio.ensure_future(take())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            last = group.next_event()
        with self.assertRaises(ferry.DeadError):
            await last
        self.assertRaises(ValueError, group.next_event)

    async def test_lost(self):
        async with self.joining(self.engine, events_max=1) as group:
            for _ in range(2):
                async with self.comer() as other:
                    rank = other.rank
                    await self.until(lambda: group.member(rank).state == MemberState.HERE)
                await self.until(lambda: group.member(rank).state == MemberState.LEFT)
            heard = 0
            while heard < 4:
                event = await group.next_event(timeout=60)
                heard += 1 + event.lost
            self.assertEqual(heard, 4)

    async def test_wrong_arguments(self):
        for error, options in (
            (ValueError, {"kind": "ajar"}),
            (TypeError, {"kind": 1}),
            (ValueError, {"events_max": -1}),
            (ValueError, {"events_max": 2**32}),
            (TypeError, {"events_max": "1"}),
            (ferry.InvalidError, {"events_max": 65537}),
            (ferry.InvalidError, {"size": 0}),
        ):
            with self.assertRaises(error):
                await self.joining(self.engine, **options)
        async with self.joining(self.engine) as group:
            self.assertRaises(TypeError, group.next_event, timeout="long")
            with self.assertRaises(ferry.InvalidError):
                async with self.comer(kind="closed"):
                    self.fail("it has joined")
            await self.engine.close()
            self.assertRaises(ferry.ShutdownError, group.next_event)
            with self.assertRaises(ferry.ShutdownError):
                await group._group._leave()
            group.leave = lambda: asyncio.sleep(0)


class ClosedGroup(PairCase):
    async def test_events(self):
        next_event = self.owner.next_event()
        self.assertFalse(next_event.done())
        await self.other.leave()
        event = await next_event
        self.assertEqual((event.state, event.rank, event.number), (MemberState.LEFT, 1, 0))
