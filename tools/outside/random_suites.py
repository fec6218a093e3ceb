# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A million random calls of level 3 and gemv compared with the reference BLAS, here and on emulated processors."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from suite import Blas, Outcome, Suite, built, needs
from tilewright.blas.letters import OF_EVERY_BLAS

SOURCE = Path(__file__).with_name("random_calls.c")
_COMPILER = shutil.which("clang-22") or shutil.which("cc")
REFERENCE = "/usr/lib/*/blas/libblas.so.3"
CALLS = 1_000_000
_PART = 10_000
_SEED = 20
"""Fixed: a run that found something is repeated by the line that it printed."""
PROCESSORS = ("Nehalem", "Haswell", "max")
_EMULATED_CALLS = 1_000


def program(folder: Path) -> Path:
    """The compiled driver, in `folder`."""
    built_program = folder / "random_calls"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type"]
    built([_COMPILER or "cc", *flags, SOURCE, "-o", built_program, "-ldl", "-lm"], folder)
    return built_program


def reference() -> Path | None:
    """Netlib's BLAS; None where it is not installed."""
    return next(Path("/").glob(REFERENCE.removeprefix("/")), None)


def run_calls(
    blas: Blas, folder: Path, calls: int = CALLS, part: int = _PART, starts: Sequence[str] = OF_EVERY_BLAS
) -> Outcome:
    """Random calls in parts, on every core, each other one on two threads of the library.

    The parts take turns with `starts`, with which names of routines begin.
    """
    outcome, driver, theirs = Outcome(), program(folder), reference()
    assert theirs is not None
    # The driver loads the library itself, beside the reference.
    alone, library = replace(blas, library=None), blas.library or theirs

    def one(first: int) -> tuple[int, int, str]:
        number = first // part
        start, threads = starts[number % len(starts)], 1 + number // len(starts) % 2
        words = [driver, library, theirs, str(_SEED), str(first), str(min(part, calls - first)), start]
        return first, *alone.run(words, folder, OMP_NUM_THREADS=str(threads))

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        for first, status, text in workers.map(one, range(0, calls, part)):
            ran = re.search(r"^(\d+) calls, \d+ differences$", text, re.MULTILINE)
            lines = {
                line.partition(": ")[2].partition(":")[0] for line in text.splitlines() if line.startswith("differs")
            }
            outcome.add(f"from {first}", int(ran[1]) if ran else 0, lines, 0 if ran else status, text)
    return outcome


def run_emulated(blas: Blas, folder: Path) -> Outcome:
    """Random calls on emulated processors, of which each level of instructions is one."""
    outcome = Outcome()
    for processor in PROCESSORS:
        emulated = replace(blas, emulator=("qemu-x86_64", "-cpu", processor))
        found = run_calls(emulated, folder, _EMULATED_CALLS, part=_EMULATED_CALLS // 4)
        outcome.tests += found.tests
        outcome.failures |= {f"{processor}: {failure}" for failure in found.failures}
        outcome.details += found.details
    return outcome


_HERE = needs("netlib's BLAS", REFERENCE)
_EMULATOR = needs("qemu-user", "/usr/bin/qemu-x86_64")
SUITES = (
    Suite("random", "random calls beside netlib's BLAS", run_calls, _HERE, beside=False),
    Suite(
        "emulated", "random calls on emulated processors", run_emulated, lambda: _HERE() or _EMULATOR(), beside=False
    ),
)
