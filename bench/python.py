# SPDX-License-Identifier: Apache-2.0
"""What ferry costs in Python, beside rivals in the same rounds: one JSON object a line.

    python3 bench/python.py [--quick]

`copy` awaits one copy after another: of 64 B, which is done before the await; of 64 KiB, which a
thread of ferry's does. `blocks` moves 4096 blocks of 16 KiB by one call. The rivals: `executor` is
loop.run_in_executor() of a function that copies; `c` is ferry_batch and ferry_future_wait on an
array of operations that was made before, called by ctypes, which leaves the interpreter's lock.
`idle` counts how often the kernel runs the event loop's thread or one of ferry's meanwhile, with
nothing in flight.
"""

import argparse
import array
import asyncio
import ctypes
import itertools
import json
import os
import random
import statistics
import threading
import time

import ferry
from ferry import _core

BLOCK_BYTES = 16384
BLOCKS = 4096


def report(case, metric, value, unit, rounds, rival=""):
    row = {"bench": "python", "case": case, "metric": metric, "unit": unit}
    row.update(value=float(f"{value:.4g}"), n=rounds, rival=rival)
    print(json.dumps(row), flush=True)


def compare(case, metric, unit, pairs, rival):
    """Rounds that alternate: the medians of both, and of their ratios."""
    own, other = zip(*pairs)
    report(case, metric, statistics.median(own), unit, len(pairs))
    report(case, metric, statistics.median(other), unit, len(pairs), rival)
    ratio = statistics.median(a / b for a, b in pairs)
    report(case, f"{metric}-ratio", ratio, "x", len(pairs), rival)


async def microseconds_each(make, count):
    """Of `count` awaits, one after another, of what `make` makes."""
    begin = time.perf_counter()
    for _ in range(count):
        await make()
    return (time.perf_counter() - begin) * 1e6 / count


def copy_bytes(target, source):
    target[:] = source


async def single(engine, size_bytes, count, rounds):
    loop = asyncio.get_running_loop()
    target, source = bytearray(size_bytes), bytes(size_bytes)
    target_view, source_view = memoryview(target), memoryview(source)
    with engine.buffer(target) as into, engine.buffer(source) as of:
        for name, make in (
            ("buffers", lambda: engine.copy(into, of)),
            ("objects", lambda: engine.copy(target, source)),
        ):
            pairs = []
            for _ in range(rounds):
                own = await microseconds_each(make, count)
                other = await microseconds_each(
                    lambda: loop.run_in_executor(None, copy_bytes, target_view, source_view), count
                )
                pairs.append((own, other))
            compare("copy", f"{name}-{size_bytes}B", "us", pairs, "executor")


class CSpan(ctypes.Structure):
    _fields_ = [("buffer", ctypes.c_void_p), ("offset", ctypes.c_size_t), ("size", ctypes.c_size_t)]


class COperation(ctypes.Structure):
    """ferry_op; what a copy has no use for is one field."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("dst", CSpan),
        ("src", CSpan),
        ("rest", ctypes.c_uint64 * 8),
    ]


class Native:
    """The same blocks by libferry alone, with an engine and buffers of its own."""

    def __init__(self, to, of):
        self.library = ctypes.CDLL(_core.__file__)  # which is linked with libferry
        for name in ("ferry_device_find", "ferry_batch"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.engine = ctypes.c_void_p()
        self.check(self.library.ferry_engine_create(None, ctypes.byref(self.engine), None))
        self.buffers = [self.allocate(b"host:1"), self.allocate(b"host:0")]
        self.operations = (COperation * BLOCKS)()
        for operation, to_bytes, of_bytes in zip(self.operations, to, of):
            operation.kind = 2
            operation.dst = CSpan(self.buffers[0], to_bytes, BLOCK_BYTES)
            operation.src = CSpan(self.buffers[1], of_bytes, BLOCK_BYTES)

    def check(self, status):
        assert status == 0, status

    def allocate(self, name):
        device = ctypes.c_void_p(self.library.ferry_device_find(self.engine, name))
        buffer = ctypes.c_void_p()
        size = ctypes.c_size_t(BLOCKS * BLOCK_BYTES)
        self.check(self.library.ferry_buffer_alloc(device, size, ctypes.byref(buffer)))
        return buffer

    def run(self):
        future = ctypes.c_void_p(
            self.library.ferry_batch(
                self.engine,
                self.operations,
                ctypes.c_size_t(ctypes.sizeof(COperation)),
                ctypes.c_size_t(BLOCKS),
                None,
                None,
            )
        )
        self.check(self.library.ferry_future_wait(future, ctypes.c_int64(-1)))
        self.library.ferry_future_release(future)

    def close(self):
        for buffer in self.buffers:
            self.library.ferry_buffer_release(buffer)
        self.library.ferry_engine_release(self.engine)


def move_blocks(target, source, to, of):
    for to_bytes, of_bytes in zip(to, of):
        ctypes.memmove(target + to_bytes, source + of_bytes, BLOCK_BYTES)


async def blocks(engine, rounds):
    loop = asyncio.get_running_loop()
    shuffled = list(range(BLOCKS))
    random.Random(1).shuffle(shuffled)
    to = array.array("Q", (i * BLOCK_BYTES for i in range(BLOCKS)))
    of = array.array("Q", (i * BLOCK_BYTES for i in shuffled))
    target = engine.allocate(BLOCKS * BLOCK_BYTES, device="host:1")
    source = engine.allocate(BLOCKS * BLOCK_BYTES, device="host:0")
    native = Native(to, of)
    addresses = target.address, source.address
    async def own():
        await engine.copy_blocks(target, source, to, of, BLOCK_BYTES)

    async def by_c():
        native.run()

    async def by_executor():
        await loop.run_in_executor(None, move_blocks, *addresses, to, of)

    ways = [own, by_c, by_executor]
    rows = []
    for turn in range(rounds + 2):
        row = {}
        for way in ways[turn % 3 :] + ways[: turn % 3]:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            await way()
            bandwidth = BLOCKS * BLOCK_BYTES / (time.perf_counter() - begin) / 1e9
            row[way] = bandwidth, (time.process_time() - begin_cpu) * 1e3
        rows.append(row)
    rows = rows[2:]  # the first touch the memory
    for way, rival in ((by_c, "c"), (by_executor, "executor")):
        bandwidths = [(row[own][0], row[way][0]) for row in rows]
        compare("blocks", "4096x16KiB", "GB/s", bandwidths, rival)
        # What other work on the machine does not disturb.
        times = [(row[own][1], row[way][1]) for row in rows]
        compare("blocks", "4096x16KiB-cpu", "ms", times, rival)
    native.close()


async def many(engine, count, rounds):
    """Copies that are under way together, each awaited by a task: one wake-up for many."""
    target = engine.allocate(count * 8192, device="host:1")
    source = engine.allocate(count * 8192)
    pieces = [(target[i : i + 8192], source[i : i + 8192]) for i in range(0, count * 8192, 8192)]
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        futures = list(itertools.starmap(engine.copy, pieces))
        for future in futures:
            await future
        times.append((time.perf_counter() - begin) * 1e6 / count)
    report("copy", "under-way-8KiB", statistics.median(times), "us", rounds)


def switches():
    """Of all threads but this one."""
    count = 0
    for thread in os.listdir("/proc/self/task"):
        if int(thread) == threading.get_native_id():
            continue
        with open(f"/proc/self/task/{thread}/status") as status:
            count += sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return count


def watch(seconds):
    time.sleep(0.1)  # what has just ended may be on its way to sleep
    before = switches()
    time.sleep(seconds)
    return switches() - before


async def idle(seconds):
    count = await asyncio.get_running_loop().run_in_executor(None, watch, seconds)
    report("idle", "wakeups", count, "", 1)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 21
    async with ferry.Engine() as engine:
        await single(engine, 64, 2000, rounds)
        await single(engine, 65536, 500, rounds)
        await many(engine, 1000, rounds)
        await blocks(engine, rounds)
        await idle(2 if rounds == 5 else 10)


if __name__ == "__main__":
    asyncio.run(main())
