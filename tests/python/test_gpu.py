# SPDX-License-Identifier: Apache-2.0
"""Memory of GPUs: on the emulated CUDA where the build has it, or on a GPU."""

import asyncio
import os

import ferry
from support import EngineCase, MEBIBYTE


class OnGpus(EngineCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        try:
            self.engine.open_device("cuda:0")
        except ferry.FerryError as error:
            await self.engine.close()
            self.skipTest(str(error))

    async def test_there_and_back(self):
        for kind in ("default", "plain"):
            data = os.urandom(MEBIBYTE)
            there = self.engine.allocate(MEBIBYTE, device="cuda:0", kind=kind)
            again = self.engine.allocate(MEBIBYTE, device="cuda:0")
            back = self.engine.allocate(MEBIBYTE, kind="pinned")
            self.engine.copy(there, data)
            self.engine.copy(again, there)
            await self.engine.copy(back, again)
            self.assertEqual(bytes(back), data)
            self.assertEqual(there.device, "cuda:0")

    async def test_has_no_memoryview(self):
        there = self.engine.allocate(64, device="cuda:0")
        self.assertRaises(BufferError, memoryview, there)
        self.assertRaises(BufferError, there[0:8].view)

    async def test_dlpack(self):
        there = self.engine.allocate(64, device="cuda:0", kind="plain")
        self.assertEqual(there.__dlpack_device__(), (2, 0))

        class Tensor:
            __dlpack__ = there.__dlpack__
            __dlpack_device__ = there.__dlpack_device__

        tensor = self.engine.buffer(Tensor())
        self.assertEqual((tensor.device, tensor.address), ("cuda:0", there.address))
        target = bytearray(64)
        self.engine.copy(tensor, b"g" * 64)
        await self.engine.copy(target, tensor)
        self.assertEqual(target, b"g" * 64)
        self.assertRaises(BufferError, there.close)
        self.assertEqual(self.engine.buffer(there).address, there.address)
        released = tensor.released()
        tensor.close()
        await released
        await self.until(lambda: self.closes(there))

    def closes(self, buffer):
        try:
            buffer.close()
        except BufferError:  # the other tensor of it is on its way back
            return False
        return True

    async def test_events(self):
        there = self.engine.allocate(64, device="cuda:0")
        there.define(self.engine.record_event("cuda:0"))
        copied = self.engine.copy(self.engine.allocate(64, device="cuda:0"), there)
        await copied.issued()
        copied.stream_wait("cuda:0")
        await copied
        self.assertRaises(ferry.NotFoundError, copied.stream_wait, "cuda:77")

    async def test_windows(self):
        other_engine = ferry.Engine(host_devices=1)
        other_engine.open_device("cuda:0")

        def join(engine, rank):
            return engine.join(store="mem:gpu", job="windows", size=2, rank=rank)

        owner, other = await asyncio.gather(join(self.engine, 0), join(other_engine, 1))
        there = self.engine.allocate(MEBIBYTE, device="cuda:0")
        local = other_engine.allocate(MEBIBYTE, device="cuda:0")
        data, back = os.urandom(MEBIBYTE), bytearray(MEBIBYTE)
        async with owner.open_window(there, "w", rights="both") as own:
            window = await other.find_window(0, "w")
            await window.put(0, data)  # host to GPU
            await window.get(0, local)  # GPU to GPU
            await window.get_blocks([0, MEBIBYTE // 2], back, [0, MEBIBYTE // 2], MEBIBYTE // 2)
            self.assertEqual(back, data)
            back[:] = bytes(MEBIBYTE)
            await other_engine.copy(back, local)
            self.assertEqual(back, data)
        self.assertEqual(own.describe().size_bytes, MEBIBYTE)
        await other_engine.close()
