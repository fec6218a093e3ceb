# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""netlib's testers of BLAS and LAPACK, as Debian's packages bring them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite import ROOT, Blas, Outcome, Suite, build, needs

sys.path.insert(0, str(ROOT / "tools" / "setup"))

import outside as installed  # The set-up's module: where it puts what it fetches.

BLAS_TESTERS = next(Path("/usr/lib").glob("*/blas/xblat3s"), Path("/nowhere/x")).parent
LAPACK_TESTERS = next(Path("/usr/lib").glob("*/lapack/xlintsts"), Path("/nowhere/x")).parent

_LARGE = (0, 1, 5, 9, 31, 32, 48, 63, 65)
"""Extents beside netlib's own: at most nine, up to 65."""
_EIGENVALUES = (
    "nep sep se2 svd {0}ec {0}ed {0}gg {0}gd {0}sb {0}sg {0}bb glm gqr gsv csd lse {0}bak {0}bal {0}gbak {0}gbal"
)


def run_blas(blas: Blas, folder: Path, testers: Path = BLAS_TESTERS, levels: Sequence[int] = (1, 2, 3)) -> Outcome:
    """The testers of levels 1, 2 and 3 in Fortran and C, on netlib's values and on larger extents."""
    outcome = Outcome()
    for letter in "sdcz":
        for level in levels:
            for program, given in (
                (f"xblat{level}{letter}", f"{letter}blat{level}.in"),
                (f"x{letter}cblat{level}", f"{letter}in{level}"),
            ):
                text = (testers / given).read_text() if level > 1 else ""
                _one(blas, folder, testers / program, text, program, outcome)
                if text:
                    _one(blas, folder, testers / program, larger(text), f"{program} large", outcome)
    return outcome


def run_blas_quickly(blas: Blas, folder: Path) -> Outcome:
    """The testers of levels 2 and 3 for f64, in Fortran and, of level 3, in C, on netlib's values."""
    outcome = Outcome()
    for program, given in (("xblat2d", "dblat2.in"), ("xblat3d", "dblat3.in"), ("xdcblat3", "din3")):
        _one(blas, folder, BLAS_TESTERS / program, (BLAS_TESTERS / given).read_text(), program, outcome)
    return outcome


def larger(text: str) -> str:
    """An input of a tester with larger extents."""
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if "NUMBER OF VALUES OF N" in line)
    lines[count] = f"{len(_LARGE)}   NUMBER OF VALUES OF N"
    lines[count + 1] = f"{' '.join(map(str, _LARGE))}   VALUES OF N"
    return "\n".join(lines) + "\n"


def _one(blas: Blas, folder: Path, program: Path, given: str, name: str, outcome: Outcome) -> None:
    status, text = blas.run([program], folder, given=given)
    # The testers in Fortran write into a file that their input names.
    for file in folder.iterdir():
        text += file.read_text(errors="replace")
        file.unlink()
    passed, failures = verdicts(text)
    outcome.add(name, passed + len(failures), failures, status, text)


def verdicts(text: str) -> tuple[int, set[str]]:
    """How many tests a tester of a BLAS says passed, and what it says of others."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    routine, passed, failures = "", 0, set[str]()
    for line in lines:
        if named := re.match(r"Test of subprogram number \d+ (\S+)", line):
            routine = named[1]
        elif re.search(r"FAIL|FATAL|SUSPECT|TAMPERED|ABANDONED|\*\*\*\*\*\*\*", line, re.IGNORECASE):
            failures.add(re.sub(r"[\d.]+E?[+-]?\d*", "#", f"{routine} {line}".strip()))
        elif re.search(r"PASSED THE .*TESTS|-- PASS --", line):
            passed += 1
    return passed, failures


def run_arm(blas: Blas, folder: Path) -> Outcome:
    """The testers of level 3 for AArch64 on the emulator, with SVE and without, on a library that is built for them."""
    root, outcome = installed.arm(), Outcome()
    testers = next((root / "usr" / "lib").glob("*/blas/xblat3s")).parent
    library = build(folder / "blas", ARM_TARGETS)
    inside = folder / "inside"
    inside.mkdir()
    for processor in ARM_PROCESSORS:
        command = (
            "qemu-aarch64",
            "-cpu",
            processor,
            "-L",
            str(root),
            "-E",
            f"LD_LIBRARY_PATH=/{testers.relative_to(root)}",
        )
        emulated = replace(blas, library=library if blas.library else None, emulator=command)
        found = run_blas(emulated, inside, testers, levels=[3])
        outcome.tests += found.tests
        outcome.failures |= {f"{processor}: {failure}" for failure in found.failures}
        outcome.details += found.details
    return outcome


def run_lapack(blas: Blas, folder: Path) -> Outcome:
    """LAPACK's testers of linear equations and of eigenvalues, with the BLAS below LAPACK replaced."""
    outcome = Outcome()
    for letter in "sdcz":
        programs = [(f"xlintst{letter}", f"{letter}test"), (f"xlintstrf{letter}", f"{letter}test_rfp")]
        if letter in "dz":
            other = "s" if letter == "d" else "c"
            programs.append((f"xlintst{letter}{other}", f"{letter}{other}test"))
        # The tester of eigenvalues takes each of its inputs for one type of problem.
        programs += [(f"xeigtst{letter}", stem.format(letter)) for stem in _EIGENVALUES.split()]
        for program, stem in programs:
            given = LAPACK_TESTERS / f"{stem}.in"
            if given.exists():
                status, text = blas.run([LAPACK_TESTERS / program], folder, given=given)
                outcome.add(f"{program} {stem}", *lapack_verdicts(text), status, text)
    return outcome


def lapack_verdicts(text: str) -> tuple[int, set[str]]:
    """How many tests a tester of LAPACK ran, and what failed."""
    tests, failures = 0, set[str]()
    for line in (" ".join(line.split()) for line in text.splitlines()):
        if ran := re.search(r"\( ?(\d+) tests (run|done)\)", line):
            tests += int(ran[1])
        elif failed := re.match(r"(.+?):? (\d+) out of (\d+) tests failed", line):
            tests += int(failed[3])
            failures.add(f"{failed[1]} above the threshold")
        elif re.search(
            r"passed the tests of the error exits|passed the threshold|Maximum|no error|tests? (have|has) been", line
        ):
            tests += "passed" in line
        elif re.match(r"\*\*\*|.*(failed to pass|illegal value|returned with INFO|INFO ?= ?[1-9])", line):
            failures.add(re.sub(r"-?\d+(\.\d+)?(E[+-]\d+)?", "#", line))
    # Tests of balancing print their largest error, of which a person judges; an end is all that can be checked.
    return tests or int("End of tests" in text), failures


ARM_TARGETS = ("armv8-a", "armv9-a")
ARM_PROCESSORS = ("cortex-a72", "max")
"""Without SVE, and with it."""


def _missing_arm() -> str | None:
    here = installed.arm().is_dir()
    return needs("qemu-user", "/usr/bin/qemu-aarch64")() or (
        None if here else "the testers for AArch64 are not here: make setup-outside"
    )


SUITES = (
    Suite("netlib", "BLAS testers, Fortran and C", run_blas, needs("libblas-test", "/usr/lib/*/blas/xblat3s")),
    Suite("arm", "BLAS testers for AArch64, emulated", run_arm, _missing_arm),
    Suite("lapack", "LAPACK testers", run_lapack, needs("liblapack-test", "/usr/lib/*/lapack/xlintsts")),
)
