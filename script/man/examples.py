# SPDX-License-Identifier: Apache-2.0
"""Calls of a function in programs that the tests compile and run."""
import re
from pathlib import Path

WHOLE_LINES = 26  # a function of a program that is longer is shown in part
BEFORE, AFTER = 4, 6


class Block:
    """A function of a program, which begins and ends in column 0 as clang-format leaves it."""

    def __init__(self, path, lines):
        self.path = path
        self.lines = lines
        self.text = "\n".join(lines)


def blocks_of(path, shown_path):
    blocks, lines = [], []
    for line in path.read_text().split("\n"):
        if line == "}" and lines:
            blocks.append(Block(shown_path, lines + [line]))
            lines = []
        elif re.match(r"[A-Za-z].*[^;:]$", line) and not line.startswith(("typedef", "struct", "enum")):
            lines = lines + [line] if lines and not lines[-1].endswith((";", "}")) else [line]
        elif line.startswith("#") or line == "" and (not lines or "{" not in "".join(lines)):
            lines = []
        elif lines:
            lines.append(line)
    return blocks


class Examples:
    """Of recipes first, then of examples; of tests only what none of these calls."""

    def __init__(self, root):
        self.blocks = []
        for rank, folder in enumerate(("examples/cookbook", "examples", "tests/api")):
            for path in sorted((Path(root) / folder).glob("*.c")):
                for block in blocks_of(path, f"{folder}/{path.name}"):
                    block.rank = rank
                    self.blocks.append(block)

    def find(self, name):
        """(path, lines) of the shortest call in context, or None."""
        call = re.compile(rf"\b{name}\b")
        found = []
        for block in self.blocks:
            at = next((i for i, line in enumerate(block.lines) if call.search(line)), None)
            if at is None:
                continue
            lines = block.lines
            if len(lines) > WHOLE_LINES:
                begin, end = max(at - BEFORE, 0), min(at + AFTER, len(lines))
                lines = (["..."] if begin else []) + lines[begin:end] + (
                    ["..."] if end < len(lines) else [])
            is_part = lines is not block.lines
            is_test = block.rank == 2
            found.append((is_test, is_part, block.rank, len(lines), block.path, lines))
        if not found:
            return None
        *rank, path, lines = min(found, key=lambda one: one[:5])
        return path, lines
