# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A million random calls of level 3 and gemv compared with the reference BLAS, here and on emulated processors."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from suite import Blas, Outcome, Suite, built, needs

SOURCE = Path(__file__).with_name("random_calls.c")
_COMPILER = shutil.which("clang-22") or shutil.which("cc")
REFERENCE = "/usr/lib/*/blas/libblas.so.3"
CALLS = 1_000_000
_PART = 10_000
_SEED = 20
"""Fixed: a run that found something is repeated by the line that it printed."""
PROCESSORS = ("Nehalem", "Haswell", "max")
_EMULATED_CALLS = 500


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
    blas: Blas, folder: Path, calls: int = CALLS, seed: int = _SEED, part: int = _PART, start: str = ""
) -> Outcome:
    """Random calls, in parts, on every core; each odd part on two threads of the library. Routines' names begin with `start`."""
    outcome, driver, theirs = Outcome(), program(folder), reference()
    assert theirs is not None

    def one(first: int) -> tuple[int, int, str]:
        words = [
            driver,
            blas.library or theirs,
            theirs,
            *map(str, (seed, first, min(part, calls - first))),
            *([start] if start else []),
        ]
        threads = str(1 + first // part % 2)
        # The driver loads the library itself, beside the reference.
        alone = replace(blas, library=None)
        return first, *alone.run(words, folder, minutes=60, OMP_NUM_THREADS=threads)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        for first, status, text in workers.map(one, range(0, calls, part)):
            ran = re.search(r"^(\d+) calls, \d+ differences$", text, re.MULTILINE)
            lines = {
                re.sub(r":.*", "", line.removeprefix("differs: "))
                for line in text.splitlines()
                if line.startswith("differs")
            }
            outcome.add(f"from {first}", int(ran[1]) if ran else 0, lines, status if status < 0 or not ran else 0, text)
    return outcome


def run_emulated(blas: Blas, folder: Path) -> Outcome:
    """Random calls on emulated processors, of which each level of instructions is one."""
    outcome = Outcome()
    for processor in PROCESSORS:
        emulated = replace(blas, emulator=("qemu-x86_64", "-cpu", processor))
        found = run_calls(emulated, folder, _EMULATED_CALLS, part=_EMULATED_CALLS // 2)
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
