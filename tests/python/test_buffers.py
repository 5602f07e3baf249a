# SPDX-License-Identifier: Apache-2.0
"""Memory of others: who holds it how long, what is read-only, DLPack."""

import array
import asyncio
import ctypes
import gc
import sys
import weakref

import ferry
from support import EngineCase

try:
    import numpy
except ImportError:
    numpy = None


class Lifetimes(EngineCase):
    async def test_exporter_is_held_until_released(self):
        memory = bytearray(64)
        buffer = self.engine.buffer(memory)
        self.assertRaises(BufferError, memory.extend, b"more")
        released = buffer.released()
        buffer.close()
        await released
        memory.extend(b"more")
        self.assertTrue(buffer.closed)
        for use in (lambda: len(buffer), lambda: buffer[0:1], lambda: buffer.device,
                    lambda: memoryview(buffer), lambda: self.engine.copy(buffer, b"")):
            self.assertRaises(ValueError, use)
        buffer.close()

    async def test_operation_holds_it_though_the_buffer_is_closed(self):
        promise = self.engine.promise()
        memory = bytearray(8)
        buffer = self.engine.buffer(memory)
        span = buffer[0:8]
        copied = self.engine.copy(buffer, b"12345678", after=promise.future)
        released = buffer.released()
        buffer.close()
        self.assertRaises(ValueError, self.engine.copy, span, b"12345678")
        self.assertRaises(BufferError, memory.clear)
        promise.resolve()
        await copied
        await released
        self.assertEqual(memory, b"12345678")
        memory.clear()

    async def test_dropped_in_flight(self):
        promise, memory, copied = self.held()
        del copied
        gc.collect()
        self.assertRaises(BufferError, memory.clear)
        promise.resolve()
        await self.engine.drain()
        await self.until(lambda: self.can_resize(memory))
        self.assertEqual(memory, b"12345678")

    def can_resize(self, memory):
        try:
            memory.append(0)
        except BufferError:
            return False
        memory.pop()
        return True

    async def test_let_go_while_the_loop_sleeps(self):
        class Exporter(bytearray):
            pass

        gone = asyncio.Event()
        memory = Exporter(64)
        weakref.finalize(memory, gone.set)
        promise = self.engine.promise()
        self.engine.copy(memory, bytes(64), after=promise.future)
        del memory
        promise.resolve()
        await gone.wait()  # no call of ferry and no timer wakes this loop

    async def test_temporaries(self):
        target = bytearray(4)
        await self.engine.copy(target, b"ab" + bytes(2))
        self.assertEqual(target[:2], b"ab")
        await self.until(lambda: self.can_resize(target))

    async def test_views_keep_a_buffer_open(self):
        buffer = self.engine.allocate(4)
        view = memoryview(buffer)
        self.assertRaises(BufferError, buffer.close)
        view.release()
        with self.assertRaises(ValueError):
            bytes(view)
        with buffer as same:
            self.assertIs(same, buffer)
        self.assertTrue(buffer.closed)

    async def test_released_memoryview(self):
        memory = memoryview(bytearray(4))
        memory.release()
        self.assertRaises(ValueError, self.engine.buffer, memory)
        self.assertRaises(ValueError, self.engine.copy, memory, b"1234")
        held = memoryview(bytearray(4))
        buffer = self.engine.buffer(held)
        self.assertRaises(BufferError, held.release)
        buffer.close()

    async def test_released_of_own_memory(self):
        buffer = self.engine.allocate(4)
        await buffer.released()
        other = self.engine.buffer(bytearray(1))
        other.released()
        self.assertRaises(ValueError, other.released)

    async def test_read_only(self):
        constant = self.engine.buffer(b"constant")
        self.assertTrue(constant.readonly)
        with self.assertRaises(ferry.InvalidError):
            self.engine.copy(constant, b"variable")
        self.assertRaises(TypeError, memoryview(constant).__setitem__, 0, 1)
        for refuse in (lambda: self.engine.buffer(b"constant", readonly=False),
                       lambda: self.engine.copy(b"constant", b"variable")):
            self.assertRaises(BufferError, refuse)
        wanted = self.engine.buffer(bytearray(8), readonly=True)
        self.assertTrue(wanted.readonly)
        await self.engine.copy(bytearray(8), wanted)

    async def test_shapes(self):
        self.assertRaises(ValueError, self.engine.buffer, b"")
        self.assertRaises(ValueError, self.engine.allocate, 0)
        self.assertRaises(TypeError, self.engine.buffer, 5)
        self.assertRaises(BufferError, self.engine.buffer, memoryview(bytearray(8))[::2])
        words = array.array("d", [1.5, 2.5])
        target = array.array("d", [0.0, 0.0])
        await self.engine.copy(target, words)
        self.assertEqual(target, words)
        self.assertEqual(len(self.engine.buffer(words)), 16)


class FakeTensor:
    """DLPack by ctypes, as the libraries of tensors do it."""

    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("index", ctypes.c_int32),
            ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
        ]

    deleter_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, memory, shape, strides=None, kind=1, versioned=False, flags=0, offset=0,
                 major=1):
        head = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)] if versioned else []
        tail = [("context", ctypes.c_void_p), ("deleter", self.deleter_type)]
        tensor = [("tensor", self.Tensor)]
        fields = head + tail + [("flags", ctypes.c_uint64)] + tensor if versioned else tensor + tail
        managed = type("Managed", (ctypes.Structure,), {"_fields_": fields})()
        if versioned:
            managed.major, managed.flags = major, flags
        self.deleted = 0
        self.versions = []
        self.deleter = self.deleter_type(self.count)
        managed.deleter = self.deleter
        shape_type = ctypes.c_int64 * len(shape)
        self.shape = shape_type(*shape)
        self.strides = shape_type(*strides) if strides else None
        managed.tensor = self.Tensor(
            ctypes.addressof(ctypes.c_char.from_buffer(memory)), kind, 3, len(shape), 2, 32, 1,
            self.shape, self.strides, offset
        )
        self.memory, self.managed, self.kind, self.versioned = memory, managed, kind, versioned

    def count(self, managed):
        self.deleted += 1

    def __dlpack_device__(self):
        return (self.kind, 3)

    def __dlpack__(self, *, stream=None, **newer):
        if newer and not self.versioned:
            raise TypeError("an old library")
        self.stream = stream
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new(ctypes.addressof(self.managed), self.name, None)


class DLPack(EngineCase):
    async def test_import(self):
        for versioned in (False, True):
            memory = bytearray(range(64))
            tensor = FakeTensor(memory, [2, 4], versioned=versioned, offset=8)
            buffer = self.engine.buffer(tensor)
            self.assertEqual((len(buffer), buffer.readonly), (32, False))
            self.assertEqual(bytes(buffer), bytes(memory[8:40]))
            await self.engine.copy(buffer, bytes(32))
            self.assertEqual(bytes(memory[8:40]), bytes(32))
            self.assertEqual(tensor.deleted, 0)
            released = buffer.released()
            buffer.close()
            await released
            self.assertEqual(tensor.deleted, 1)

    async def test_read_only(self):
        tensor = FakeTensor(bytearray(8), [2], versioned=True, flags=1)
        self.assertTrue(self.engine.buffer(tensor).readonly)
        self.assertRaises(BufferError, self.engine.copy, tensor, bytes(8))

    async def test_refused(self):
        for wrong in (
            FakeTensor(bytearray(64), [2, 4], strides=[8, 1]),
            FakeTensor(bytearray(64), [2], kind=12),
            FakeTensor(bytearray(64), [2], versioned=True, major=2),
        ):
            with self.assertRaises(BufferError):
                self.engine.buffer(wrong)
            self.assertEqual(wrong.deleted, 0 if wrong.versioned else 1)
        self.assertRaises(ValueError, self.engine.buffer, FakeTensor(bytearray(4), [0]))
        with self.assertRaisesRegex(ferry.NotFoundError, "cuda:3"):
            self.engine.buffer(FakeTensor(bytearray(4), [1], kind=2))
        transposed = FakeTensor(bytearray(64), [1, 4], strides=[99, 1])
        self.assertEqual(len(self.engine.buffer(transposed)), 16)

    async def test_export(self):
        buffer = self.engine.allocate(8)
        self.assertEqual(buffer.__dlpack_device__(), (1, 0))
        count = sys.getrefcount(buffer)
        for version in (None, (1, 0), (0, 8)):
            capsule = buffer.__dlpack__(max_version=version)
            self.assertRaises(BufferError, buffer.close)
            del capsule
            self.assertEqual(sys.getrefcount(buffer), count)
        for wrong in (lambda: buffer.__dlpack__(copy=True),
                      lambda: self.engine.buffer(b"12").__dlpack__()):
            self.assertRaises(BufferError, wrong)
        self.assertIn("versioned", repr(self.engine.buffer(b"1").__dlpack__(max_version=(1, 0))))
        buffer.close()
        self.assertRaises(ValueError, buffer.__dlpack__)
        self.assertRaises(ValueError, buffer.__dlpack_device__)

    async def test_to_and_fro(self):
        """A Buffer of a Buffer: its memory is held by both."""
        first = self.engine.allocate(4)

        class OnlyDLPack:
            __dlpack__ = first.__dlpack__
            __dlpack_device__ = first.__dlpack_device__

        second = self.engine.buffer(OnlyDLPack())
        self.assertEqual(second.address, first.address)
        self.assertRaises(BufferError, first.close)
        released = second.released()
        second.close()
        await released
        first.close()

    async def test_numpy(self):
        if numpy is None:
            self.skipTest("NumPy is not here")
        buffer = self.engine.allocate(16)
        numpy.frombuffer(buffer, dtype=numpy.uint8)[:] = 7
        array_of_it = numpy.from_dlpack(buffer)
        self.assertEqual(array_of_it.tolist(), [7] * 16)
        self.assertRaises(BufferError, buffer.close)
        del array_of_it
        buffer.close()
        frozen = numpy.arange(4)
        frozen.flags.writeable = False
        self.assertTrue(self.engine.buffer(frozen).readonly)
        with self.assertRaisesRegex(ValueError, "contiguous"):  # NumPy's own
            self.engine.buffer(numpy.arange(8).reshape(2, 4).T)

    async def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not here")
        source, target = torch.arange(1000.0), torch.zeros(1000)
        await self.engine.copy(target, source)
        self.assertTrue(torch.equal(source, target))
