# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests of BLIS and of OpenBLAS that know no more of a library than a BLAS has: compiled here, on the system's BLAS."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from netlib_suites import verdicts
from suite import ROOT, Blas, Outcome, Suite, built, needs

sys.path.insert(0, str(ROOT / "tools" / "setup"))

import outside as installed  # The set-up's module: where it puts what it fetches.

SHIM = Path(__file__).parent / "shim"
"""Two headers in the place of OpenBLAS's."""
_C = shutil.which("cc") or shutil.which("clang-22")
_CPP = shutil.which("g++") or shutil.which("c++")
_UNITS = (
    "utest_main",
    *(f"test_{name}" for name in ["fork", "post_fork", "axpy", "dnrm2", "dotu", "dsdot", "rot", "rotmg", "swap"]),
)
"""OpenBLAS's tests of what every BLAS has. Others test functions of its own."""
_THREADS = ("dgemm", "dgemv")
_SIZES = (("64", "32", "16"), ("200", "8", "8"), ("1024", "4", "2"))
"""Rows of a matrix, calls at the same time, rounds."""


def system_blas() -> Path:
    """The BLAS that programs here are linked with."""
    return next(Path("/usr/lib").glob("*/libblas.so.3"))


def run_blis(blas: Blas, folder: Path) -> Outcome:
    """BLIS's testers of levels 1 to 3: netlib's in C, with the values that BLIS tests its BLAS layer with."""
    outcome, tests = Outcome(), installed.sources("blis") / "blastest"
    types = ["-include", "stdint.h", "-Dinteger=int32_t", "-Duinteger=uint32_t"]
    command = [_C or "cc", "-O1", "-w", *types, "-I", tests / "f2c"]
    built([*command, "-c", *sorted((tests / "f2c").glob("*.c"))], folder)
    runtime = sorted(folder.glob("*.o"))
    for letter in "sdcz":
        for level in (1, 2, 3):
            name = f"{letter}blat{level}"
            source = tests / "src" / f"{name}.c"
            built([*command, source, *runtime, system_blas(), "-lm", "-o", folder / name], folder)
            given = tests / "input" / f"{name}.in"
            status, text = blas.run([folder / name], folder, given=given if given.exists() else "")
            for file in folder.glob("out.*"):
                text += file.read_text()
                file.unlink()
            passed, failures = verdicts(text)
            outcome.add(name, passed + len(failures), failures, status, text)
    return outcome


def run_openblas(blas: Blas, folder: Path) -> Outcome:
    """OpenBLAS's tests of level 1, of forks before and after a product, and of calls from many threads."""
    tests = _openblas(folder)
    outcome = Outcome()
    source = [tests / "utest" / f"{name}.c" for name in _UNITS]
    program = folder / "units"
    built([_C or "cc", "-O1", "-w", "-I", tests, *source, system_blas(), "-lm", "-lpthread", "-o", program], folder)
    for threads in ("1", "2", "4"):
        status, text = blas.run([program], folder, minutes=10, OMP_NUM_THREADS=threads)
        ran = re.findall(r"^TEST \d+/\d+ (\S+) \[(\w+)\]", text, re.MULTILINE)
        failures = {f"{name} {verdict}" for name, verdict in ran if verdict != "OK"}
        outcome.add(f"utest on {threads} threads", len(ran), failures, status, text)
    for name in _THREADS:
        program = folder / name
        source = tests / "cpp_thread_test" / f"{name}_thread_safety.cpp"
        built([_CPP or "g++", "-O1", "-w", "-fopenmp", "-std=c++11", source, system_blas(), "-o", program], folder)
        for size in _SIZES:
            status, text = blas.run([program, *size], folder, minutes=30)
            outcome.add(
                f"{name} thread safety {' '.join(size)}", 1, [] if "PASSED" in text else ["fails"], status, text
            )
    return outcome


def run_forks_quickly(blas: Blas, folder: Path) -> Outcome:
    """OpenBLAS's tests of forks alone, on two threads, and its smallest of many threads."""
    tests, outcome = _openblas(folder), Outcome()
    program = folder / "forks"
    source = [tests / "utest" / f"{name}.c" for name in _UNITS[:3]]
    built([_C or "cc", "-O1", "-w", "-I", tests, *source, system_blas(), "-lm", "-lpthread", "-o", program], folder)
    status, text = blas.run([program], folder, minutes=2, OMP_NUM_THREADS="2")
    ran = re.findall(r"^TEST \d+/\d+ (\S+) \[(\w+)\]", text, re.MULTILINE)
    outcome.add("forks", len(ran), {name for name, verdict in ran if verdict != "OK"}, status, text)
    return outcome


def _openblas(folder: Path) -> Path:
    """A copy of OpenBLAS's tests, among headers that know no OpenBLAS."""
    tests = folder / "openblas"
    shutil.copytree(installed.sources("openblas"), tests)
    for header in SHIM.iterdir():
        shutil.copy(header, tests)
    return tests


def missing_blis() -> str | None:
    """What BLIS's testers lack here."""
    return _missing("blis", _C)


def missing_openblas() -> str | None:
    """What OpenBLAS's tests lack here."""
    return _missing("openblas", _CPP)


def _missing(package: str, compiler: str | None) -> str | None:
    headers = needs("libblas-dev", "/usr/include/*/cblas-netlib.h", "/usr/lib/*/libblas.so.3")
    return (None if compiler else "there is no compiler") or headers() or installed.missing(package)


SUITES = (
    Suite("blis", "BLIS's testers of its BLAS layer", run_blis, missing_blis),
    Suite("openblas", "OpenBLAS's tests of forks and threads", run_openblas, missing_openblas),
)
