# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench blas`: calls of C's interface of a BLAS are checked, and measured in turn. The OpenBLAS of numpy's wheel stands in for ours."""

from pathlib import Path

import numpy as np
import pytest
from tilewright.bench.blas import Case, cases, comparison, programs
from tilewright.bench.blas.page import PAGE, over_better
from tilewright.bench.checks import CheckError
from tilewright.bench.operators.results import Result
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError

OPENBLAS = sorted(Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas64_*"))
EVERY = [Case(name, Shape(5, 4, 3 if name in ("gemm", "syrk") else 1)) for name in cases.ROUTINES]
pytestmark = pytest.mark.skipif(not OPENBLAS, reason="numpy is of no wheel with OpenBLAS")


def test_every_routine_computes_what_it_has_to_and_is_measured():
    f32 = comparison.run(OPENBLAS[0], EVERY, "f32", libraries=["numpy"], rounds=2, min_seconds=1e-5)
    c128 = comparison.run(OPENBLAS[0], EVERY[:3], "c128", libraries=[], rounds=1, min_seconds=1e-5)
    assert [each.case for each in f32] == [str(each) for each in EVERY]
    assert all(len(rates.rounds) == 2 for each in f32 for rates in each.rates.values())
    assert Result.from_json(f32[0].as_json()).key == f32[0].key
    assert over_better(f32[0]) == dict(f32[0].ratios())["numpy"]
    assert over_better(c128[0]) is None
    page = PAGE.markdown([*f32, *c128], "the command")
    assert "gemm 5×4×3" in page
    assert "times the better one of numpy and mkl: geometric mean" in page


def test_integers_have_no_offsets(monkeypatch):
    """Whatever memory is taken for them has in it."""
    monkeypatch.setattr(cases, "aligned", lambda shape, kind: np.full(shape, 7, kind))
    case = Case("gemm", Shape(3, 5, 7))
    given = case.arguments("u8,i8,i32", case.operands("u8,i8,i32"))
    assert np.array_equal(np.asarray(given[-1][2]), [0])
    assert [value for _, value, _ in (given[10], given[13])] == [0, 0]


def test_a_result_that_is_wrong_is_not_timed(monkeypatch):
    right = Case.expected
    monkeypatch.setattr(Case, "expected", lambda self, asked: right(self, asked) * 1.001)
    with pytest.raises(CheckError, match="computes gemm 5x4x3 in f64 with a relative error"):
        comparison.run(OPENBLAS[0], EVERY[:1], "f64", libraries=[], rounds=1, min_seconds=1e-5)


def test_what_is_not_there_is_refused():
    with pytest.raises(TilewrightError, match="no symm of 'bf16' in a BLAS"):
        comparison.run(OPENBLAS[0], EVERY, "bf16")
    with pytest.raises(TilewrightError, match="no BLAS 'torch'"):
        comparison.run(OPENBLAS[0], EVERY[:1], "f32", libraries=["torch"])


def test_programs_run_with_the_library_and_without_it():
    """Of a library that is not ours, nobody knows whether it served."""
    with pytest.raises(TilewrightError, match="the library served no call"):
        programs.run(OPENBLAS[0], "f64", names=["A @ A.T"], sizes=[8], rounds=1, min_seconds=1e-4)
    with pytest.raises(TilewrightError, match="no programs of 'c64'"):
        programs.run(OPENBLAS[0], "c64")
