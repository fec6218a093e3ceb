# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other people's tests of a BLAS, netlib's and numpy's, pass on kernels made by tilewright.

`gemm_library` builds a library whose gemm calls such kernels, and puts it before the one that a suite is linked with. Where a test
fails, it is run without that library too: what fails there as well is not ours.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import gemm_library as blas
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(blas.COMPILER is None, reason="no C compiler")

TESTERS = {path.name: path for path in Path("/usr/lib").glob("*/blas/x*blat3*")}
"""netlib's testers of products of matrices, of Debian's package libblas-test."""
ROUTINES = {"xblat3s": "SGEMM ", "xblat3d": "DGEMM ", "xscblat3": "cblas_sgemm ", "xdcblat3": "cblas_dgemm "}
"""What each tests, as it reads the name: in Fortran and in C."""
EXTENTS = {"short": (0, 1, 2, 7, 17, 33, 65), "long": (0, 1, 5, 9, 31, 32, 48, 63, 65)}
ALPHAS = {"short": (0.0, 1.0, 0.7), "long": (0.0, 1.0, -1.0, 0.7, 1e3)}
BETAS = {"short": (0.0, 1.0, -1.3), "long": (0.0, 1.0, -1.0, 1.3, 1e-3)}
"""All of these in turn for M, N and K, and for the factors. The testers take at most nine extents, up to 65, and seven factors."""

NUMPY = Path(np.__file__).parent
PRODUCTS = "(MatMul or Dot or Inner or matmul or dot or inner) and not huge"
"""The tests of arrays that multiply matrices. The huge ones are of two vectors of 8 GB."""
SUITES = {"short": ("linalg/tests/test_linalg.py",), "long": ("linalg", "matrixlib", "polynomial")}


@pytest.fixture(scope="module")
def length(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--length"))


@pytest.fixture(scope="module")
def library(length: str, tmp_path_factory: pytest.TempPathFactory) -> blas.Library:
    # What is chosen has more code than what packs, and takes a minute and a half to compile.
    return blas.build(tmp_path_factory.mktemp("blas"), "packed" if length == "short" else None)


def question(tester: str, length: str) -> str:
    """The input of a tester.

    Line by line: where it writes, whether it stops at a failure, whether it gives wrong arguments, in which orders of elements, how
    large an error may be, in units of what rounding explains, the values, and what is tested.
    """
    summary, orders = ("", "2\n") if "cblat" in tester else ("'/dev/stdout'\n8\n", "")
    counted = [each[length] for each in (EXTENTS, ALPHAS, BETAS)]
    values = "".join(f"{len(each)}\n{' '.join(map(str, each))}\n" for each in counted)
    return f"{summary}'unused'\n-1\nF\nF\nT\n{orders}16.0\n{values}{ROUTINES[tester]} T\n"


@pytest.mark.skipif(not TESTERS, reason="netlib's testers, Debian's package libblas-test, are not installed")
@pytest.mark.parametrize("tester", ROUTINES)
def test_netlib(tester, library, length, tmp_path):
    given = question(tester, length)
    theirs = verdicts(blas.run([TESTERS[tester]], tmp_path, given=given))
    text, calls = library.run([TESTERS[tester]], tmp_path, given=given)
    count = len(EXTENTS[length]) ** 3 * 9 * len(ALPHAS[length]) * len(BETAS[length])
    expected = ["TESTS OF ERROR-EXITS", *[f"COMPUTATIONAL TESTS ({count} CALLS)"] * (2 if "cblat" in tester else 1)]
    assert theirs, "the tester tests nothing"
    if theirs != expected:
        pytest.skip(f"{tester} fails with the system's BLAS too: {theirs}")
    assert verdicts(text) == expected, text[-3000:]
    # Calls with an alpha of zero, and those that leave C as it is, run no kernel.
    assert calls[ROUTINES[tester].strip().lower().removeprefix("cblas_")] > count / 3


def verdicts(text: str) -> list[str]:
    """What a tester says of gemm: which tests it passed, in short, and in full what else."""
    lines = [" ".join(line.split()) for line in text.splitlines() if "gemm" in line.lower()]
    return [re.sub(r"^\w+ PASSED THE ((COLUMN|ROW)-MAJOR )?|(?<=\() ", "", line) for line in lines]


def numpys(selection: list[str | Path]) -> list[str | Path]:
    """The command that runs tests of numpy, apart from the settings of our own."""
    alone = ["-c", os.devnull, f"--rootdir={NUMPY}", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return [sys.executable, "-I", "-m", "pytest", "-q", "-rf", *alone, *selection]


def test_numpy(library, length, tmp_path):
    for selection in (
        [NUMPY / name for name in SUITES[length]],
        [NUMPY / "_core" / "tests" / "test_multiarray.py", "-k", PRODUCTS],
    ):
        text, calls = library.run(numpys(selection), tmp_path, allow_failure=True)
        assert calls["dgemm"] > 1000
        assert calls["sgemm"] > 100
        failed = failures(text)
        assert failed or " passed" in text.splitlines()[-1], text[-3000:]
        if failed:
            # What pytest calls a test begins with its file, as seen from where it ran.
            again = blas.run(numpys([tmp_path / name for name in failed]), tmp_path, allow_failure=True)
            assert failed <= failures(again), text[-5000:]


def failures(text: str) -> set[str]:
    """The names of the tests that pytest says failed."""
    return {name for name, _ in re.findall(r"^FAILED (.+?)( - .*)?$", text, re.MULTILINE)}
