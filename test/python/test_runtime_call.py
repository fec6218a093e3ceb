# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels on numpy arrays: what they take, what they refuse, and how they say it."""

from __future__ import annotations

import gc
import sys
from typing import Any

import handmade
import ml_dtypes
import numpy as np
import pytest
from handmade import call, matrix
from hypothesis import given
from hypothesis import strategies as st
from tilewright import _runtime
from tilewright.errors import OperandError, TilewrightError
from tilewright.standalone import _native


def refusal(m: int, n: int, k: int, a: Any, b: Any, out: Any = None) -> OperandError:
    with pytest.raises(OperandError) as caught:
        call(m, n, k)(a, b, out=out)
    return caught.value


# What is taken.


def test_the_result_is_new():
    a, b = matrix(3, 7), matrix(7, 5)
    c = call(3, 5, 7)(a, b)
    assert c.shape == (3, 5)
    assert c.dtype == np.float32
    assert c.flags.c_contiguous
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_out_is_written_and_returned():
    a, b, out = matrix(3, 7), matrix(7, 5), np.full((3, 5), np.nan, np.float32)
    assert call(3, 5, 7)(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_operands_may_be_named():
    a, b = matrix(3, 7), matrix(7, 5)
    np.testing.assert_allclose(call(3, 5, 7)(b=b, a=a, out=None), a @ b, rtol=1e-5)


@given(
    st.tuples(*[st.integers(0, 5)] * 3),
    st.tuples(*[st.integers(0, 4)] * 3),
    st.tuples(*[st.integers(1, 3)] * 3),
    st.sampled_from(["float32", "float64"]),
)
def test_rows_may_lie_apart(extents, padding, steps, dtype):
    m, n, k = extents
    shapes = [(m, k), (k, n), (m, n)]
    # Rows longer than needed, of which only every second or third is used.
    whole = [
        matrix(rows * step, columns + pad, dtype)
        for (rows, columns), pad, step in zip(shapes, padding, steps, strict=True)
    ]
    a, b, c = (
        each[::step, pad : pad + columns]
        for each, (_, columns), pad, step in zip(whole, shapes, padding, steps, strict=True)
    )
    before = whole[2].copy()
    types = {"a": dtype, "b": dtype, "c": dtype}
    element = "float" if dtype == "float32" else "double"
    assert call(m, n, k, object_=handmade.matmul(element), **types)(a, b, out=c) is c
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    # Nothing beside the result has changed.
    before[:: steps[2], padding[2] : padding[2] + n] = c
    np.testing.assert_array_equal(whole[2], before)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 5, 7), (3, 1, 7), (3, 5, 1), (1, 1, 1), (0, 5, 7), (3, 0, 7), (3, 5, 0)])
def test_strides_of_single_rows_and_columns_mean_nothing(m, n, k):
    def odd(rows: int, columns: int) -> np.ndarray:
        array = matrix(rows, columns)
        row, column = array.strides
        strides = (-12 if rows <= 1 else row, 7 if columns <= 1 else column)
        return np.lib.stride_tricks.as_strided(array, array.shape, strides)

    a, b, out = odd(m, k), odd(k, n), odd(m, n)
    expected = np.ascontiguousarray(a) @ np.ascontiguousarray(b)
    np.testing.assert_allclose(call(m, n, k)(a, b, out=out), expected, rtol=1e-5)


def test_a_column_of_a_wider_array_is_taken():
    a, wide = matrix(4, 3), matrix(3, 8)
    np.testing.assert_allclose(call(4, 1, 3)(a, wide[:, 2:3]), a @ wide[:, 2:3], rtol=1e-5)


def test_subclasses_are_taken_for_their_memory():
    class Tagged(np.ndarray):
        pass

    a, b = matrix(3, 7), matrix(7, 5)
    c = call(3, 5, 7)(a.view(Tagged), b)
    assert type(c) is np.ndarray
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_open_extents_come_from_the_operands():
    product = call(None, 5, None)
    for m, k in ((3, 7), (1, 1), (4, 0)):
        a, b = matrix(m, k), matrix(k, 5)
        np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-5)
    with pytest.raises(OperandError, match=r"operand b: shape \(6, 5\); expected \(7, 5\)"):
        product(matrix(3, 7), matrix(6, 5))
    with pytest.raises(OperandError, match=r"operand b: shape \(7, 4\); expected \(7, 5\)"):
        product(matrix(3, 7), matrix(7, 4))
    with pytest.raises(OperandError, match=r"operand a: shape \(3,\); expected \(any, any\)"):
        product(np.zeros(3, np.float32), matrix(7, 5))


def test_types_from_ml_dtypes():
    silent = call(2, 2, 2, object_=handmade.returning(0), a=ml_dtypes.bfloat16, b=ml_dtypes.bfloat16)
    a = matrix(2, 2).astype(ml_dtypes.bfloat16)
    assert silent(a, a).dtype == np.float32
    with pytest.raises(OperandError, match="operand b: element type float16; expected bfloat16"):
        silent(a, matrix(2, 2, "float16"))


def test_columns_of_one_array_do_not_overlap():
    whole = matrix(4, 8)
    a, out = whole[:, :4], whole[:, 4:]
    expected = a @ a
    np.testing.assert_allclose(call(4, 4, 4)(a, a, out=out), expected, rtol=1e-5)


# What is refused.

A, B = matrix(3, 7), matrix(7, 5)


@pytest.mark.parametrize(
    ("wrong", "what", "expected", "remedy"),
    [
        (A.tolist(), "a list is not a numpy array", "a numpy array of float32, shape (3, 7)", "numpy.asarray(a)"),
        (None, "a NoneType is not a numpy array", "a numpy array of float32, shape (3, 7)", "numpy.asarray(a)"),
        (np.float32(1), "a numpy.float32 is not a numpy array", "float32", "numpy.asarray(a)"),
        (A.astype("f8"), "element type float64", "float32", "a.astype('float32')"),
        (A.astype("i4"), "element type int32", "float32", "a.astype('float32')"),
        (A.astype(A.dtype.newbyteorder("S")), "element type >f4", "float32", "a.astype('float32')"),
        (A.astype(object), "element type object", "float32", "a.astype('float32')"),
        (A.ravel(), "shape (21,)", "(3, 7)", "a.reshape"),
        (A.reshape(1, 3, 7), "shape (1, 3, 7)", "(3, 7)", "a.reshape"),
        (np.array(1, "f4"), "shape ()", "(3, 7)", "a.reshape"),
        (A.T, "shape (7, 3)", "(3, 7)", "Compile a kernel for these extents"),
        (matrix(3, 6), "shape (3, 6)", "(3, 7)", "Compile a kernel for these extents"),
        (
            matrix(7, 3).T,
            "strides (4, 12) bytes: the elements of a row are not adjacent",
            "strides (r, 4)",
            "ascontiguousarray(a)",
        ),
        (matrix(3, 14)[:, ::2], "the elements of a row are not adjacent", "strides (r, 4)", "ascontiguousarray(a)"),
        (A[::-1], "strides (-28, 4) bytes: rows run backwards", "strides (r, 4)", "ascontiguousarray(a)"),
        (A[:, ::-1], "columns run backwards", "strides (r, 4)", "ascontiguousarray(a)"),
        (
            np.broadcast_to(A[0], (3, 7)),
            "strides (0, 4) bytes: rows overlap",
            "no shorter than a row",
            "ascontiguousarray(a)",
        ),
        (
            np.lib.stride_tricks.sliding_window_view(matrix(1, 9)[0], 7),
            "rows overlap",
            "strides (r, 4)",
            "ascontiguousarray(a)",
        ),
        (
            np.lib.stride_tricks.as_strided(np.zeros(100, "u1").view("f4"), (3, 7), (30, 4)),
            "rows lie no whole number of elements apart",
            "a multiple of 4",
            "ascontiguousarray(a)",
        ),
        (
            np.zeros(85, "u1")[1:].view("f4").reshape(3, 7),
            "its first element lies",
            "aligned to 4 bytes",
            "numpy.array(a)",
        ),
    ],
)
def test_a_wrong_operand_is_explained(wrong, what, expected, remedy):
    error = refusal(3, 5, 7, wrong, B)
    assert error.operand == "a"
    assert what in str(error.what)
    assert expected in str(error.expected)
    assert remedy in str(error.remedy)
    assert str(error).startswith("operand a: ")


def test_the_operand_is_named():
    assert refusal(3, 5, 7, A, A).operand == "b"
    assert refusal(3, 5, 7, A, B, out=np.zeros((5, 3), "f4")).operand == "out"


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "what", "remedy"),
    [
        ([[0.0] * 5] * 3, "a list is not a numpy array", "numpy.empty((3, 5), 'float32')"),
        (np.zeros((3, 5)), "element type float64", "numpy.empty((3, 5), 'float32')"),
        (np.zeros((5, 3), "f4"), "shape (5, 3)", "numpy.empty((3, 5), 'float32')"),
        (read_only(np.zeros((3, 5), "f4")), "the array is read-only", "numpy.empty((3, 5), 'float32')"),
        (np.zeros((5, 3), "f4").T, "the elements of a row are not adjacent", "Write into a C-contiguous array"),
    ],
)
def test_a_wrong_out_is_explained(out, what, remedy):
    error = refusal(3, 5, 7, A, B, out=out)
    assert what in error.what
    assert remedy in str(error.remedy)


def test_overlap_with_out_is_refused():
    square = matrix(4, 4)
    assert "overlaps operand a" in refusal(4, 4, 4, square, matrix(4, 4), out=square).what
    assert "overlaps operand b" in refusal(4, 4, 4, matrix(4, 4).copy(), square, out=square).what
    long = matrix(1, 64)[0]
    assert "overlaps operand a" in str(refusal(4, 4, 4, long[:16].reshape(4, 4), square, out=long[15:31].reshape(4, 4)))
    wide = matrix(4, 8)
    assert "overlaps operand a" in str(refusal(4, 4, 4, wide[:, :4], square, out=wide[:, 3:7]))
    before = wide.copy()
    np.testing.assert_array_equal(wide, before)


def test_neighbors_do_not_overlap():
    long = matrix(1, 64)[0]
    expected = long[:16].reshape(4, 4) @ long[32:48].reshape(4, 4)
    out = call(4, 4, 4)(long[:16].reshape(4, 4), long[32:48].reshape(4, 4), out=long[16:32].reshape(4, 4))
    np.testing.assert_allclose(out, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "2 operands"),
        ((A,), {}, "2 operands"),
        ((A, B, A), {}, "pass the result as out="),
        ((A, B), {"c": A}, "no keyword 'c'"),
        ((A, B), {"a": A}, "several values for operand 'a'"),
    ],
)
def test_a_wrong_call_is_a_type_error(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        call(3, 5, 7)(*args, **kwargs)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"m": -1}, ValueError),
        ({"m": -2}, ValueError),
        ({"m": 1.5}, TypeError),
        ({"a": "no such type"}, TypeError),
        ({"a": object}, ValueError),
    ],
)
def test_a_wrong_description_is_refused(given, error):
    code = _runtime.Code(handmade.matmul(), "matmul")
    with pytest.raises(error):
        _native.MatmulCall(code, **{"m": 1, "n": 1, "k": 1, "a": "f4", "b": "f4", "c": "f4", **given})


def test_an_unfinished_kernel_cannot_be_called():
    class Unfinished(_native.MatmulCall):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError):
        Unfinished()(A, B)


@pytest.mark.parametrize(("status", "message"), [(1, "compiled for other extents"), (9, "returned status 9")])
def test_a_status_is_an_error(status, message):
    with pytest.raises(TilewrightError, match=message):
        call(3, 5, 7, object_=handmade.returning(status))(A, B)


def test_calls_leak_nothing():
    product = call(4, 4, 4)
    square, out = matrix(4, 4), np.empty((4, 4), np.float32)
    count = sys.getrefcount
    gc.collect()  # what other tests left behind has references to the type, too
    before = [count(each) for each in (square, out, product, out.dtype)]
    for _ in range(100):
        product(square, square, out=out)
        product(square, square)
        with pytest.raises(OperandError):
            product(square, square, out=square)
    gc.collect()
    assert [count(each) for each in (square, out, product, out.dtype)] == before
