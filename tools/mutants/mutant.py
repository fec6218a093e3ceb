# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A mutant: one small change of the package that some test has to notice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("python", "tilewright")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: The file, below `python/tilewright`.
        old: Text that occurs once in it.
        new: What stands there instead.
        tests: What has to notice: files of `test/python`, perhaps with ``::`` and a test's name, or lit tests below `test`.
        equivalent: Why no test can notice; empty where one can.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def place(self, root: Path = ROOT) -> Path:
        """The file in a tree."""
        return root / PACKAGE / self.file

    def line(self, root: Path = ROOT) -> int:
        """The number of the first line that changes."""
        text = self.place(root).read_text(encoding="utf-8")
        return text[: text.index(self.old)].count("\n") + 1

    def mutated(self, root: Path = ROOT) -> str:
        """The file's text with the change.

        Raises:
            ValueError: The old text does not occur exactly once, or the new one is the same.
        """
        text = self.place(root).read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times; expected once, and another text for it")
        return text.replace(self.old, self.new)

    def digest(self, root: Path = ROOT) -> str:
        """What tells this run from one of another change, file or tests."""
        parts = [
            self.mutated(root),
            *self.tests,
            *(path_of(each, root).read_text(encoding="utf-8") for each in self.tests),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def is_lit(test: str) -> bool:
    """Whether a test is one of lit's."""
    return not test.partition("::")[0].endswith(".py")


def path_of(test: str, root: Path = ROOT) -> Path:
    """The file of a test."""
    name = test.partition("::")[0]
    return root / "test" / name if is_lit(test) else root / "test" / "python" / name
