# SPDX-License-Identifier: Apache-2.0
"""What the suites share."""

import asyncio
import gc
import os
import subprocess
import sys
import unittest

import ferry

MEBIBYTE = 1 << 20


def run_child(code, *arguments, expect=0):
    """Runs a program in an interpreter of its own; its standard output. All warnings are shown."""
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Fatal Python error" not in done.stderr, done.stderr
    return done.stdout


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class EngineCase(unittest.IsolatedAsyncioTestCase):
    """A test with an engine, which is empty at the end."""

    async def asyncSetUp(self):
        self.engine = ferry.Engine(host_devices=2, host_workers=2)
        await self.engine.__aenter__()

    async def asyncTearDown(self):
        await self.engine.close()
        self.assertEqual(self.engine._calls, set())

    def held(self):
        """A promise, and a copy of 8 bytes into a new bytearray that waits for it."""
        promise = self.engine.promise()
        target = bytearray(8)
        return promise, target, self.engine.copy(target, b"12345678", after=promise.future)

    async def until(self, condition):
        """Turns of the event loop until something is so; the suite's time-out ends what hangs."""
        while not condition():
            gc.collect()
            self.engine.nop()  # a call of ferry lets go what is quiet
            await asyncio.sleep(0)


class PairCase(EngineCase):
    """A test with two members in this process; `other` has an engine of its own."""

    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.other_engine = ferry.Engine(host_devices=1)

        def join(engine, rank):
            return engine.join(store=f"mem:{self.id()}", job="pair", size=2, rank=rank, timeout=60)

        self.owner, self.other = await asyncio.gather(
            join(self.engine, 0), join(self.other_engine, 1)
        )

    async def asyncTearDown(self):
        await self.other_engine.close()
        await super().asyncTearDown()
