# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls with exact results on emulated processors and with musl's C library, where there is no other BLAS to compare with."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from suite import Blas, Outcome, Suite, built, needs
from tilewright.blas.letters import OF_EVERY_BLAS
from tilewright.blas.names import SONAME

SOURCE = Path(__file__).with_name("plain_calls.c")
TYPES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"s": ("float", 0), "d": ("double", 0), "c": ("float", 1), "z": ("double", 1)}
)
"""Of each letter, C's type of real numbers, and whether its own are complex."""
COMPILERS: Mapping[str, str] = MappingProxyType({"glibc": "cc", "musl": "musl-gcc"})
"""By C library, the program that compiles for it."""
LEVELS: Mapping[str, str] = MappingProxyType(
    {"qemu64": "x86-64", "Nehalem": "x86-64-v2", "Haswell": "x86-64-v3", "max": "x86-64-v3"}
)
"""By QEMU's name of a processor, which code of the library that `tilewright blas build` makes has to serve."""


def run_exactly(
    blas: Blas, folder: Path, letters: tuple[str, ...] = OF_EVERY_BLAS, levels: Mapping[str, str] = LEVELS
) -> Outcome:
    """The calls with each C library, on the processor that runs this and on each that `levels` has.

    There the code that it says has to serve; "none" where every routine has to fall back to plain loops.
    """
    assert blas.library
    outcome, alone = Outcome(), replace(blas, library=None)
    (folder / SONAME).symlink_to(blas.library)
    for libc, compiler in COMPILERS.items():
        for letter in letters:
            program, (real, whether) = folder / f"{letter}-{libc}", TYPES[letter]
            given = [f"-DLETTER={letter}", f"-DREAL={real}", f"-DCOMPLEX={whether}"]
            # Products of complex numbers need not heed NaN, and take a fourth of the time so.
            flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fcx-limited-range", *given]
            built([compiler, *flags, SOURCE, blas.library, "-o", program], folder)
            for processor, level in {"": "", **levels}.items():
                emulator = ["qemu-x86_64", "-cpu", processor] if processor else []
                status, text = alone.run([*emulator, program], folder, LD_LIBRARY_PATH=str(folder))
                ended = re.search(r"^(\d+) calls, \d+ differences, served by (\S+)$", text, re.MULTILINE)
                failures = set(re.findall("^differs: (.*)$", text, re.MULTILINE))
                if ended and level not in ("", ended[2]):
                    failures.add(f"served by {ended[2]}, expected {level}")
                name = f"{letter} with {libc} on {processor or 'this processor'}"
                outcome.add(name, int(ended[1]) if ended else 0, failures, status, text)
    return outcome


def missing() -> str | None:
    """What is not installed that this needs."""
    lacks = next((each for each in COMPILERS.values() if shutil.which(each) is None), None)
    emulator = needs("qemu-user", "/usr/bin/qemu-x86_64")()
    return emulator or (f"{lacks} is not installed: make setup-outside" if lacks else None)


SUITES = (Suite("exact", "calls on emulated processors, with glibc and musl", run_exactly, missing, beside=False),)
