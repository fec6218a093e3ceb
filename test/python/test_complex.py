# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of complex matrices: numbers in every layout, factors, entries, what is never read, and what is refused."""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from numpy.typing import NDArray
from tilewright.bench.operands import types_of
from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError, SpecError
from tilewright.payload import complex_products, spec_tables
from tilewright.payload.complex_products import block_numbers, computed, form
from tilewright.payload.samples import values
from tilewright.runtime.trial import Difference, Trial
from tilewright.spec import LAYOUTS

FACTORS = [(1, 0), (1, 1), (2 - 1j, 0), ("arg", "arg"), (-0.5, 2), (0, 1 + 1j), (1, "arg"), ("arg", 1), (1j, -1j)]


def matrix(*shape: int, dtype: str = "c64", seed: int = 0) -> NDArray[Any]:
    return values(np.random.default_rng(seed), shape, tw.dtypes.dtype(dtype))


def as_multiplied(x: NDArray[Any], how: str) -> NDArray[Any]:
    return x if how == "n" else x.swapaxes(-1, -2) if how == "t" else x.conj().swapaxes(-1, -2)


def check(kernel: tw.Kernel, called: tw.MatmulSpec | None = None) -> None:
    """Checks a call on random operands against the reference."""
    trial = Trial.random(kernel, called or kernel.spec, seed=7)
    trial()
    difference = trial.difference()
    assert difference.right, str(difference)


@cache
def dynamic() -> tw.Kernel:
    return tw.compile(tw.MatmulSpec(None, None, None, a="c64", layout="cn", alpha="arg", beta="arg"))


@pytest.mark.parametrize(("shape", "made"), [((7, 19, 5), "blocks"), ((2, 33, 40), "stacked")], ids=str)
@pytest.mark.parametrize(
    ("layout", "dtype", "factors"), list(zip(LAYOUTS, cycle(["c64", "c128"]), FACTORS, strict=False)), ids=str
)
def test_numbers_in_every_layout_and_form(layout, dtype, factors, shape, made):
    alpha, beta = factors
    spec = tw.MatmulSpec(*shape, a=dtype, layout=layout, alpha=alpha, beta=beta)
    assert form(spec) == ("blocks" if alpha == 0 else made)
    check(tw.compile(spec))


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        ({"m": None, "n": None, "k": None}, "either"),
        ({"m": None, "n": 64, "k": None}, "either"),
        ({"m": None, "n": None, "k": 64}, "blocks"),  # One kernel of a real product does not serve K and 2 K.
        ({"m": None, "n": None, "k": 64, "layout": "nt"}, "either"),
        ({"m": 4, "n": None, "k": None}, "stacked"),
        ({"m": 64, "n": None, "k": None}, "blocks"),
        ({"m": tw.Dim(1, 8), "n": None, "k": None}, "stacked"),
        ({"m": tw.Dim(1, 16), "n": 512, "k": 512}, "stacked"),
        ({"m": None, "n": 512, "k": 512}, "blocks"),
        ({"m": 2, "n": 512, "k": 512, "deterministic": True}, "blocks"),
    ],
    ids=str,
)
def test_form(fields, made):
    spec = tw.MatmulSpec(a="c64", **fields)
    assert form(spec) == made
    m, n, k = (size if isinstance(size, int) else size.nearest(7) for size in (spec.m, spec.n, spec.k))
    stacked = (2 * m, n, 2 * k) if spec.b_transposed else (2 * m, 2 * n, k)
    for each in ("blocks", "stacked") if made == "either" else (made,):
        assert computed(spec).at(*(stacked if each == "stacked" else (m, 2 * n, 2 * k)))


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_reference_is_the_formula(dtype):
    """Conjugates and factors, in numpy's own arithmetic; parts of the reference and of that are off by a few roundings."""
    spec = tw.MatmulSpec(4, 3, 6, a=dtype, layout="ct", alpha=2 - 1j, beta="arg")
    a, b, c = (matrix(*shape, dtype=dtype) for shape in (spec.a_shape, spec.b_shape, spec.c_shape))
    wide = [x.astype(np.complex128) for x in (a, b, c)]
    exact = (2 - 1j) * as_multiplied(wide[0], "c") @ as_multiplied(wide[1], "t") + 3j * wide[2]
    expected, bound = (each(spec, a, b, 3j, c) for each in (tw.reference, tw.error_bound))
    assert abs(expected - exact).max() < 1e-14
    unit = np.finfo(c.dtype).eps
    assert ((unit < bound) & (bound < 1000 * unit)).all()
    wrong = tw.reference(tw.MatmulSpec(4, 3, 6, a=dtype, layout="tt", alpha=2 - 1j, beta="arg"), a, b, 3j, c)
    assert not Difference.of(wrong.astype(c.dtype), expected, bound).right


@pytest.mark.parametrize(
    ("made", "betas"), [("blocks", (0, 1, "arg", 1)), ("stacked", (0, 0, 0, 0)), ("either", (0, "arg", "arg", "arg"))]
)
def test_real_products_add_only_to_c(made, betas):
    """Sums that are stacked start from 0, without a pass that clears them; C is multiplied before where a factor is neither 0 nor 1."""
    shape = {"blocks": (64, 8, 8), "stacked": (2, 64, 64), "either": (None, None, None)}[made]
    for beta, expected in zip((0, 1, "arg", 2j), betas, strict=True):
        spec = tw.MatmulSpec(*shape, a="c64", beta=beta)
        assert (form(spec), computed(spec).beta) == (made, expected)


def test_little_scratch_memory_is_on_the_stack():
    for shape, gets_some in (((3, 5, 7), False), ((30, 50, 70), True)):
        code = tw.compile(tw.MatmulSpec(*shape, a="c64", beta="arg")).asm["llvmir"]
        assert ("aligned_alloc" in code) == gets_some


def test_dynamic_extents():
    kernel = dynamic()
    for shape in ((19, 37, 41), (2, 33, 40), (1, 1, 1), (5, 1, 70), (3, 4, 0), (0, 4, 3), (1, 66, 30)):
        check(kernel, kernel.spec.at(*shape))


def test_a_batch_that_is_broadcast():
    check(tw.compile(tw.MatmulSpec(4, 6, 5, a="c128", batch=(2, 3), b_batch=(3,), layout="nc", alpha="arg", beta=3)))
    kernel = tw.compile(tw.MatmulSpec(4, 6, 5, a="c64", batch=(None,), a_batch=(None,), b_batch=()))
    for batch in (0, 1, 3):
        check(kernel, kernel.spec.at(4, 6, 5, batch))


def test_large_b_is_copied_in_parts(monkeypatch):
    monkeypatch.setattr(complex_products, "MOST_SCRATCH", 1)  # What decides is the least block then, of 64 columns.
    spec = tw.MatmulSpec(70, 150, 9, a="c64", layout="tc", alpha=1j, beta="arg")
    assert computed(spec).n == tw.Dim(2, 300, 2)
    check(tw.compile(spec, schedule="unpacked", cache=False))
    whole = tw.MatmulSpec(70, 150, None, a="c64")
    assert (computed(whole).n, block_numbers(whole)) == (300, 2**62)


def test_nan_stays_out():
    a, b, kernel = matrix(5, 7), matrix(5, 9, seed=1), dynamic()
    c = np.full((7, 9), complex(np.nan, np.nan), np.complex64)
    kernel(a, b, out=c, alpha=1 + 2j, beta=0)
    expected = (1 + 2j) * (a.conj().T @ b)
    assert abs(c - expected).max() < 1e-5
    kernel(np.full_like(a, np.nan), np.full_like(b, np.nan), out=c, alpha=0, beta=2j)
    assert abs(c - 2j * expected).max() < 1e-5
    kernel(np.full_like(a, np.nan), b, out=np.full_like(c, np.nan), alpha=0, beta=0)
    c[...] = np.nan
    kernel(np.full_like(a, np.nan), b, out=c, alpha=0, beta=0)
    assert not c.any()


def test_infinities_stay_in_their_row_and_column():
    a, b = matrix(4, 5), matrix(5, 6, seed=1)
    a[1, 2], b[3, 4] = np.inf, np.nan
    finite = np.isfinite(tw.matmul(a, b))
    assert not finite[1].any()
    assert not finite[:, 4].any()
    assert finite[[0, 2, 3]][:, [0, 1, 2, 3, 5]].all()


def _call(function: Any, m: int, n: int, k: int, matrices: list[NDArray[Any]], factors: list[complex]) -> int:
    given: list[Any] = [ctypes.c_int64(each) for each in (m, n, k)]
    for each in matrices:
        given += [ctypes.c_void_p(each.ctypes.data), ctypes.c_int64(each.strides[0] // each.itemsize)]
    numbers = [np.array(each, matrices[0].dtype) for each in factors]
    return function(*given, *(ctypes.c_void_p(each.ctypes.data) for each in numbers))


def test_c_entry_takes_leading_dimensions_in_complex_elements():
    kernel = dynamic()
    prototype = kernel.c_function.prototype
    assert prototype.endswith("void *c, int64_t ldc, const void *alpha, const void *beta)")
    function = ctypes.CFUNCTYPE(
        ctypes.c_int32, *[ctypes.c_int64] * 3, *[ctypes.c_void_p, ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2
    )(kernel.c_function.address)
    a, b, c = matrix(5, 12), matrix(5, 20, seed=1), matrix(7, 11, seed=2)
    former = c.copy()
    assert _call(function, 7, 9, 5, [a, b, c], [1 + 2j, 0.5j]) == 0
    assert abs(c[:, :9] - ((1 + 2j) * (a[:, :7].conj().T @ b[:, :9]) + 0.5j * former[:, :9])).max() < 1e-5
    assert (c[:, 9:] == former[:, 9:]).all()
    assert _call(function, -1, 9, 5, [a, b, c], [1, 0]) == 1


def test_a_schedules_text_is_replayed(tmp_path):
    spec = tw.MatmulSpec(7, 19, 5, a="c64", layout="nc", alpha="arg")
    kernel, file = tw.compile(spec), tmp_path / "schedule.mlir"
    file.write_text(kernel.asm["schedule"])
    again = tw.compile(spec, schedule=file)
    a, b = matrix(7, 5), matrix(19, 5, seed=1)
    assert (again(a, b, alpha=1 - 3j) == kernel(a, b, alpha=1 - 3j)).all()


@pytest.mark.parametrize("target", ["neoverse-n1", "rv64gcv"])
def test_other_processors(target):
    check(tw.compile(tw.MatmulSpec(5, 7, 9, a="c64", layout="tn", alpha=1j, beta=1), target=target))


def test_several_threads():
    check(tw.compile(tw.MatmulSpec(160, 96, 160, a="c64"), threads=2))


def test_a_library_has_types_of_cplusplus(tmp_path):
    spec = tw.MatmulSpec(5, 9, 7, a="c128", layout="nc", alpha="arg")
    tw.library({"own_zgemm": spec}, targets=["x86-64-v2"], name="complexes", out=tmp_path)
    header = next(tmp_path.rglob("complexes.h")).read_text()
    assert "const std::complex<double> *a" in header
    assert "B as 9 x 7 elements. Conjugated: B.\n   A complex number is two numbers" in header
    (file,) = tmp_path.rglob("libcomplexes.so")
    function = ctypes.CDLL(str(file)).own_zgemm
    a, b, c = matrix(5, 7, dtype="c128"), matrix(9, 7, dtype="c128", seed=1), np.empty((5, 9), np.complex128)
    assert _call(function, 5, 9, 7, [a, b, c], [2 - 1j]) == 0
    assert abs(c - (2 - 1j) * (a @ b.conj().T)).max() < 1e-13


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_matmul(dtype):
    a, b = matrix(7, 5, dtype=dtype), matrix(5, 19, dtype=dtype, seed=1)
    spec = tw.MatmulSpec(7, 19, 5, a=dtype)
    for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        got = tw.matmul(left, right)
        assert got.dtype == to_numpy(spec.c_type)
        assert Difference.of(got, tw.reference(spec, a, b), tw.error_bound(spec, a, b)).right


def test_matmul_of_batches_and_of_nothing():
    a, b = matrix(3, 1, 5, 7), matrix(4, 7, 6, seed=1)
    assert abs(tw.matmul(a, b) - a @ b).max() < 1e-5
    assert abs(tw.matmul(a, b[0]) - a @ b[0]).max() < 1e-5
    assert not tw.matmul(matrix(3, 0), matrix(0, 4)).any()
    assert tw.matmul(matrix(0, 3), matrix(3, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"b": "f32"}, "A of c64, B of f32 summed in c64 to C of c64 is not supported yet"),
        ({"c": "f32"}, "A of c64, B of c64 summed in c64 to C of f32 is not supported yet"),
        ({"epilogue": (tw.relu(),)}, "epilogue with A of c64 is not supported yet; expected no epilogue"),
        ({"prologue_a": (tw.relu(),)}, "prologue_a with A of c64 is not supported yet"),
        ({"b_packed": True}, "b_packed with A of c64 is not supported yet"),
        ({"tf32": True}, "tf32 with A of c64"),
        ({"layout": "nh"}, "one of nn, nt, tn, tt, nc, cn, tc, ct, cc"),
        ({"alpha": complex(np.inf, 1)}, r"alpha is \(inf\+1j\)"),
    ],
    ids=str,
)
def test_what_specs_refuse(fields, match):
    with pytest.raises(SpecError, match=match):
        tw.MatmulSpec(3, 4, 5, a="c64", **fields)


def test_what_is_refused():
    with pytest.raises(SpecError, match="alpha is 1j"):
        tw.MatmulSpec(3, 4, 5, alpha=1j)
    for target in ("sm_90a", "vulkan"):
        with pytest.raises(SpecError, match="complex numbers on a GPU are not supported"):
            tw.compile(tw.MatmulSpec(3, 4, 5, a="c64"), target=target)
    with pytest.raises(SpecError, match="beta 0, of real numbers"):
        tw.compile_chain([tw.MatmulSpec(3, 4, 5, a="c64"), tw.MatmulSpec(3, 6, 4, a="c64")])
    with pytest.raises(SpecError, match="element types are 'c64'; expected types of real numbers"):
        types_of("c64")
    with pytest.raises(SpecError, match="A of c64, B of c128"):
        tw.MatmulSpec(3, 3, 3, a="c64", b="c128")
    kernel = tw.compile(tw.MatmulSpec(2, 2, 2, alpha="arg"))
    with pytest.raises(OperandError, match="operand alpha: a complex is not a numpy array"):
        kernel(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), alpha=1j)


def test_a_spec_as_a_table_and_its_operations():
    spec = tw.MatmulSpec(3, 4, 5, a="c64", layout="cn", alpha=1 - 2j, beta=1j)
    table = spec_tables.table(spec)
    assert table is not None
    assert (table["alpha"], table["beta"]) == ("1-2j", "1j")
    assert spec_tables.read(table, "a list") == spec
    assert spec.flops == 8 * 3 * 4 * 5


def test_numbers_without_an_imaginary_part_are_real_and_c_of_real_types_is_t():
    assert tw.MatmulSpec(3, 4, 5, a="c64", alpha=1 + 0j, beta=2 + 0j) == tw.MatmulSpec(3, 4, 5, a="c64", beta=2.0)
    assert tw.MatmulSpec(3, 4, 5, layout="cn") == tw.MatmulSpec(3, 4, 5, layout="tn")
