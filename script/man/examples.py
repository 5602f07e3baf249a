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
        elif re.match(r"[a-z].*[^;]$", line) and not line.startswith(("typedef", "struct", "enum")):
            lines = lines + [line] if lines and not lines[-1].endswith((";", "}")) else [line]
        elif line.startswith("#") or line == "" and (not lines or "{" not in "".join(lines)):
            lines = []
        elif lines:
            lines.append(line)
    return blocks


class Examples:
    def __init__(self, root):
        root = Path(root)
        paths = sorted((root / "examples" / "cookbook").glob("*.c"))
        paths += sorted((root / "examples").glob("*.c"))
        self.blocks = [b for path in paths for b in blocks_of(path, str(path.relative_to(root)))]

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
            found.append((is_part, "/cookbook/" not in block.path, len(lines), block.path, lines))
        if not found:
            return None
        *rank, path, lines = min(found, key=lambda one: one[:4])
        return path, lines
