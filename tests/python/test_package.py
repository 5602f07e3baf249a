# SPDX-License-Identifier: Apache-2.0
"""The package: its types, the examples in its texts, its version."""

import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ferry

TREE = pathlib.Path(__file__).resolve().parents[2]

USE = """
import ferry
async def use(engine: ferry.Engine) -> bytes:
    buffer = engine.allocate(8)
    await engine.copy(buffer[0:4], b"abcd", after=engine.nop(), reads=[buffer], timeout=1.0)
    await engine.copy_blocks(buffer, bytes(8), [0], range(1), 4)
    number: int = await engine.call(len, b"", writes=buffer)
    text: str = await engine.call(later)
    async with engine.join(store="mem:x", job="y", size=number) as group:
        await group.send(0, buffer, tag=3)
        value: bytes = (await group.get("key")).data
        ranks: list[int] = await group.alive()
        async with group.open_window(buffer, "w", rights="both") as own:
            number = own.describe().size_bytes
        window: ferry.Window = await group.find_window(1, "w", timeout=1.0)
        await window.get(0, buffer[0:4], after=window.ready, label="first")
        await window.put_blocks([0], b"abcd", range(1), 4)
        await group.send_notice(1, b"told", after=window.close())
        value += (await group.next_notice(timeout=1.0)).data
        operations = engine.operations()
        first: int = operations.copy(buffer, bytes(8), label="first", reads=[buffer])
        blocks: range = operations.get_blocks(window, [0], buffer, range(1), 4)
        operations.send_notice(group, 1, b"taken")
        with engine.plan(operations) as plan:
            await plan.post(picks=[first, *blocks], timeout=1.0)
            number = plan.describe().op_count
    async with engine.join(store="mem:x", job="z", kind="open", size=4, events_max=64) as group:
        number = (await group.next_event(timeout=1.0)).rank
    return await engine.promise().future + value
async def later() -> str:
    return "text"
"""
WRONG = USE.replace("number: int", "number: str").replace("tag=3", "tog=3").replace("both", "all")
WRONG = WRONG.replace("picks=", "pick=")


class Examples(unittest.TestCase):
    def test_numpy_blocks(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("NumPy is not here")
        done = subprocess.run(
            [sys.executable, str(TREE / "examples/numpy_blocks.py"), "--blocks", "32"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "^32 blocks of 65536 bytes, checksum [0-9a-f]{8}\n$")

    def test_cookbook(self):
        for name in ("kv_blocks.py", "kv_plan.py", "kv_window.py"):
            done = subprocess.run(
                [sys.executable, str(TREE / "examples/cookbook" / name)],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout, "64 of 64 blocks are right\n")


class Package(unittest.TestCase):
    def test_version_is_the_headers(self):
        header = (TREE / "include/ferry/version.h").read_text()
        numbers = re.findall(r"^#define FERRY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M)
        self.assertEqual(ferry.__version__, ".".join(numbers))

    def test_examples_in_texts(self):
        examples = 0
        for module in pkgutil.iter_modules(ferry.__path__):
            result = doctest.testmod(importlib.import_module(f"ferry.{module.name}"))
            self.assertEqual(result.failed, 0)
            examples += result.attempted
        examples += doctest.testmod(ferry).attempted
        result = doctest.testfile(str(TREE / "python/README.md"), module_relative=False)
        self.assertEqual(result.failed, 0)
        self.assertGreater(min(examples, result.attempted), 10)

    def test_public_names_have_texts(self):
        for name in ferry.__all__:
            public = getattr(ferry, name)
            self.assertTrue(public.__doc__, name)
            for part, value in vars(public).items():
                if not part.startswith("_") and callable(value):
                    self.assertTrue(value.__doc__, f"{name}.{part}")

    def mypy(self, *arguments):
        program = shutil.which("mypy", path="/usr/bin:" + os.environ["PATH"])
        if program is None:
            self.skipTest("mypy is not here")
        with tempfile.TemporaryDirectory(prefix="ferry-mypy.") as cache:
            return subprocess.run(
                [program, "--strict", "--cache-dir", cache, *arguments],
                capture_output=True,
                text=True,
                env=dict(os.environ, MYPYPATH=str(TREE / "python")),
            )

    def test_types(self):
        done = self.mypy(str(TREE / "python/ferry"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_types_of_use(self):
        done = self.mypy("-c", USE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.mypy("-c", WRONG)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('"tog"', done.stdout)
        self.assertIn('"call" of "Engine"', done.stdout)
        self.assertIn('"open_window" of "Group"', done.stdout)
        self.assertIn('"pick" for "post" of "Plan"', done.stdout)
