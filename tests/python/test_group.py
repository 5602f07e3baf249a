# SPDX-License-Identifier: Apache-2.0
"""Groups: members in one process and in two."""

import asyncio
import os
import subprocess
import sys
import tempfile
import unittest

import ferry
from support import EngineCase, MEBIBYTE

MEMBER = """
import asyncio, ferry, os, sys
async def main(store, rank):
    async with ferry.Engine(host_devices=1) as engine:
        async with engine.join(store=store, job="pair", size=2, rank=rank, timeout=60,
                               secret=b"0123456789abcdef") as group:
            peer = 1 - rank
            assert (group.rank, group.size) == (rank, 2)
            for size in (1, 4096, 3 << 20):
                data = bytes([rank + 1]) * size
                target = bytearray(size)
                sent = group.send(peer, data, tag=size)
                await group.recv(peer, target, tag=size)
                await sent
                assert target == bytes([peer + 1]) * size
            await group.barrier("done", [0, 1], timeout=60)
            if rank == 1:
                os.kill(os.getpid(), 9) if os.environ.get("DIES") else None
            elif os.environ.get("DIES"):
                try:
                    await group.recv(1, bytearray(1))
                except ferry.DeadError as error:
                    print("dead", error.rank)
                except ferry.PeerError as error:
                    print("dead", error.rank)
    print("left")
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class OneProcess(EngineCase):
    def join(self, name, rank, size=2, **options):
        return self.engine.join(store=f"mem:{name}", job="job", size=size, rank=rank, **options)

    async def joined(self, name, rank, **options):
        return await self.join(name, rank, **options)

    async def pair(self, name):
        other = ferry.Engine(host_devices=1)

        async def second():
            return await other.join(store=f"mem:{name}", job="job", size=2, rank=1)

        groups = await asyncio.gather(self.joined(name, 0), second())
        return other, groups

    async def test_values_and_barriers(self):
        other, (first, second) = await self.pair("values")
        await first.set("a/b", b"\0value")
        value = await second.get("a/b")
        self.assertEqual(value.data, b"\0value")
        with self.assertRaises(ferry.NotFoundError):
            await second.try_get("none")

        async def watch():
            return await second.watch("a/b", value.version)

        watching = asyncio.ensure_future(watch())
        await asyncio.sleep(0)
        await first.set("a/b", b"new", timeout=60)
        self.assertEqual((await watching).data, b"new")
        with self.assertRaises(ferry.DeadlineError):
            await first.barrier("alone", timeout=0.01)

        async def alive(group):
            return await group.alive(timeout=60)

        self.assertEqual(await asyncio.gather(alive(first), alive(second)), [[0, 1], [0, 1]])
        member = first.member(1)
        self.assertEqual((member.rank, member.state.name, member.pid), (1, "HERE", os.getpid()))
        self.assertRaises(ferry.NotFoundError, first.member, 9)
        await first.step(1)
        self.assertIsNone(first.stop_step)
        await second.give_notice()
        number = 1
        while first.stop_step is None:  # until the notice is heard here
            number += 1
            await first.step(number, timeout=60)
        self.assertLessEqual(first.stop_step, number)
        await second.leave()
        await first.leave()
        self.assertRaises(ValueError, first.send, 0, b"1")
        self.assertRaises(ValueError, lambda: first.rank)
        await other.close()

    async def test_pause_of_a_group_without_nccl(self):
        async with self.join("pause", 0, size=1) as group:
            async with group.nccl_paused(timeout=60):
                await group.set("key", b"value")
            with self.assertRaises(KeyError):
                async with group.nccl_paused():
                    raise KeyError("the collective failed")
            self.assertEqual(group.member(0).nccl_groups, 0)
            target = bytearray(1)
            group.send(0, b"p")
            await group.recv(0, target)
            self.assertEqual(target, b"p")
        self.assertRaises(ValueError, lambda: group._group._nccl_pause(None))

    async def test_messages_wait_for_their_writers(self):
        other, (first, second) = await self.pair("messages")
        promise = self.engine.promise()
        block = self.engine.allocate(4)
        self.engine.copy(block, b"abcd", after=promise.future)
        sent = first.send(1, block, label="block")
        target = other.allocate(4)
        second.recv(0, target)
        result = bytearray(4)
        copied = other.copy(result, target)
        self.assertFalse(copied.done())
        promise.resolve()
        await copied
        await sent
        self.assertEqual(result, b"abcd")
        with self.assertRaises(ferry.LengthError):
            short = second.recv(0, target, tag=3)
            with self.assertRaises(ferry.LengthError):
                await first.send(1, b"too long", tag=3)
            await short
        self.assertRaises(TypeError, first.send, 1)
        self.assertRaises(ValueError, first.send, -1, block)
        self.assertRaises(ValueError, first.send, 1, block, tag=-1)
        with self.assertRaises(ferry.NotFoundError):
            await first.send(7, block)
        with self.assertRaises(BufferError):
            first.recv(1, b"read-only")
        await second.leave()
        await first.leave()
        await other.close()

    async def test_join_fails(self):
        with self.assertRaisesRegex(ferry.DeadlineError, "1"):
            await self.joined("absent", 0, timeout=0.05)
        with self.assertRaises(ferry.InvalidError):
            await self.engine.join(store="nonsense", job="job", size=1)
        for error, options in (
            (TypeError, {"nonsense": 1}),
            (ValueError, {"rank": -1}),
            (TypeError, {"secret": "text"}),
            (TypeError, {"lease": "long"}),
        ):
            with self.assertRaises(error):
                await self.engine.join(store="mem:x", job="job", **options)

    async def test_join_cancelled(self):
        task = asyncio.ensure_future(self.joined("cancelled", 0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task


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

    def test_messages(self):
        self.assertEqual(self.run_pair(), (["left\n", "left\n"], [0, 0]))

    def test_death(self):
        output, codes = self.run_pair(DIES="1")
        self.assertEqual((output[0], codes), ("dead 1\nleft\n", [0, -9]))
