# SPDX-License-Identifier: Apache-2.0
"""Memory of GPUs: on the emulated CUDA where the build has it, or on a GPU."""

import asyncio
import ctypes
import os

import ferry
from support import EngineCase, MEBIBYTE


class Driver:
    """A stream of the program's, by the driver that ferry has opened."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.stream = ctypes.c_void_p()
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxPushCurrent_v2", context)
        self("cuStreamCreate", ctypes.byref(self.stream), 1)  # beside the default stream

    def __call__(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: {status}"

    def close(self):
        self("cuStreamDestroy_v2", self.stream)
        self("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        self("cuDevicePrimaryCtxRelease_v2", 0)


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

    def make_plan(self):
        """There and back, as one command to the GPU: its source, its target and the plan."""
        source = self.engine.allocate(MEBIBYTE, kind="pinned")
        target = self.engine.allocate(MEBIBYTE, kind="pinned")
        there = self.engine.allocate(MEBIBYTE, device="cuda:0")
        operations = self.engine.operations()
        operations.copy(there, source)
        operations.copy(target, there)
        plan = self.engine.plan(operations)
        if plan.describe().graph_count == 0:
            self.skipTest("the driver has no graphs")
        return memoryview(source), memoryview(target), plan

    async def test_plans(self):
        source, target, plan = self.make_plan()
        source[:] = os.urandom(MEBIBYTE)
        await plan.post()
        self.assertEqual(source, target)
        source[:] = os.urandom(MEBIBYTE)
        plan.enqueue("cuda:0")  # on the default stream
        await self.engine.record_event("cuda:0")
        self.assertEqual(source, target)
        for name in ("host:0", "cuda:77"):
            with self.assertRaises(ferry.FerryError):
                plan.enqueue(name)
        plan.close()
        with self.assertRaises(ValueError):
            plan.enqueue("cuda:0")
        source.release()
        target.release()

    async def test_plans_on_a_stream(self):
        """Also while it is captured: then the copies are the program's graph's."""
        source, target, plan = self.make_plan()
        driver = Driver()
        stream, address = driver.stream, driver.stream.value
        source[:] = os.urandom(MEBIBYTE)
        for _ in range(3):
            plan.enqueue("cuda:0", address)
        driver("cuStreamSynchronize", stream)
        self.assertEqual(source, target)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuStreamBeginCapture_v2", stream, 2)  # relaxed
        plan.enqueue("cuda:0", address)
        driver("cuStreamEndCapture", stream, ctypes.byref(graph))
        source[:] = os.urandom(MEBIBYTE)
        driver("cuStreamSynchronize", stream)
        self.assertNotEqual(source, target)
        flags = ctypes.c_ulonglong(0)
        driver("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        driver("cuGraphLaunch", executable, stream)
        driver("cuStreamSynchronize", stream)
        self.assertEqual(source, target)
        driver("cuGraphExecDestroy", executable)
        driver("cuGraphDestroy", graph)
        driver.close()
        source.release()
        target.release()

    async def test_functions_in_plans(self):
        """Beside copies of a GPU: each part begins by itself."""
        source = self.engine.allocate(8, kind="pinned")
        there = self.engine.allocate(8, device="cuda:0")
        target = bytearray(8)

        async def fill():
            with memoryview(source) as view:
                view[:] = b"filled!!"

        operations = self.engine.operations()
        operations.call(fill, writes=source)
        operations.copy(there, source)
        operations.copy(target, there)
        with self.engine.plan(operations) as plan:
            self.assertEqual(plan.describe().graph_count, 0)
            await plan.post()
            self.assertEqual(target, b"filled!!")
            with self.assertRaises(ferry.UnsupportedError):
                plan.enqueue("cuda:0")

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
