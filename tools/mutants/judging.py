# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puts mutants into a copy of the checkout, one at a time, and runs the tests that have to notice them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import mutant_tree
from mutant import Mutant, is_lit, path_of

_LONGEST_S = 1800
"""After which a run is taken for one that never ends: that too is noticed."""


class Results:
    """What became of each mutant, by its digest, in a file, so that a run that was broken off goes on."""

    def __init__(self, file: Path) -> None:
        """Reads what is there."""
        self._file = file
        self._known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}

    def get(self, digest: str) -> str | None:
        """The test that noticed it, empty for none; None where that is not known."""
        return self._known.get(digest)

    def put(self, digest: str, noticed: str) -> None:
        """Keeps it."""
        self._known[digest] = noticed
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._known, indent=1) + "\n")


def judge(mutant: Mutant, copy: Path, python: Path) -> str:
    """The first test that notices a mutant; empty when none does."""
    place = mutant.place(copy)
    before = place.read_text(encoding="utf-8")
    try:
        place.write_text(mutant.mutated(copy), encoding="utf-8")
        return next((each for each in mutant.tests if fails(each, copy, python)), "")
    finally:
        place.write_text(before, encoding="utf-8")


def fails(test: str, copy: Path, python: Path) -> bool:
    """Whether a test fails in the copy, or does not end."""
    command = [python, python.with_name("lit"), "-q", path_of(test, copy)]
    if not is_lit(test):
        name = str(path_of(test, copy)) + "".join(test.partition("::")[1:])
        command = [python, "-I", "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", name]
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=copy,
            env=mutant_tree.environment(copy),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0
