# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright.matmul` takes what `numpy.matmul` takes: vectors, lists, types that are promoted, any strides, `out`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from dlpack_arrays import Exchanged, Foreign, Library
from tilewright.errors import OperandError, SpecError
from tilewright.runtime import numpy_rules

RANDOM = np.random.default_rng(0)


def numbers(shape: tuple[int, ...], dtype: Any = "f4") -> np.ndarray[Any, Any]:
    """Small whole numbers, of which products and sums are exact in every type."""
    return RANDOM.integers(-4 if np.dtype(dtype).kind not in "ub" else 0, 5, shape).astype(dtype)


def wide(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Integers of all bits."""
    return np.frombuffer(RANDOM.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((6,), (6,)),
        ((6,), (6, 5)),
        ((4, 6), (6,)),
        ((6,), (2, 6, 5)),
        ((2, 4, 6), (6,)),
        ((3, 1, 4, 6), (2, 6, 5)),
        ((0,), (0,)),
        ((0, 6), (6,)),
        ((4, 0), (0, 5)),
        ((1,), (1, 1)),
    ],
    ids=str,
)
def test_vectors_and_batches(a: tuple[int, ...], b: tuple[int, ...]):
    left, right = numbers(a), numbers(b)
    expected = left @ right
    result = tw.matmul(left, right)
    assert result.shape == expected.shape
    assert (result == expected).all()
    out = np.full(expected.shape, np.nan, "f4")
    assert tw.matmul(left, right, out=out) is out
    assert (out == expected).all()


def test_vectors_with_gaps_are_not_copied():
    left, right = numbers((12,))[::2], numbers((24,))[::4]
    assert np.shares_memory(numpy_rules.stored(left[None])[0], left)
    assert np.shares_memory(numpy_rules.stored(right[:, None])[0], right)
    assert tw.matmul(left, right) == left @ right


_STRIDES = {
    "backwards": lambda x: x[::-1],
    "columns backwards": lambda x: x[:, ::-1],
    "both": lambda x: x[::-1, ::-1],
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column for all": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one number for all": lambda x: np.broadcast_to(x[:1, :1], x.shape),
    "overlapping rows": lambda x: np.lib.stride_tricks.as_strided(x, x.shape, (4, 4)),
    "not aligned": lambda x: np.frombuffer(b"." + x.tobytes(), "u1")[1:].view("f4").reshape(x.shape),
    "swapped bytes": lambda x: x.astype(">f4"),
    "Fortran's order": np.asfortranarray,
    "read-only": lambda x: np.frombuffer(x.tobytes(), "f4").reshape(x.shape),
}


@pytest.mark.parametrize("change", _STRIDES.values(), ids=_STRIDES)
def test_strides(change: Any):
    a, b = numbers((6, 6)), numbers((6, 6))
    assert (tw.matmul(change(a), b) == change(a) @ b).all()
    assert (tw.matmul(b, change(a)) == b @ change(a)).all()


def test_matrices_backwards():
    a, b = numbers((3, 4, 6))[::-1], numbers((3, 6, 5))
    assert (tw.matmul(a, b) == a @ b).all()


def test_what_a_kernel_takes_is_not_copied():
    base = numbers((8, 12))
    for x in (base, base[:, :5], base.T, base[::2], base[2:, 3:9].T, numbers((3, 4, 6)).swapaxes(0, 1)):
        assert np.shares_memory(numpy_rules.stored(x)[0], x)
        assert not np.shares_memory(numpy_rules.stored(x[::-1])[0], x)


_INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")


@pytest.mark.parametrize("a", _INTEGERS)
def test_integers_are_numpys_to_the_last_bit(a: str):
    for b in _INTEGERS:
        left, right = (
            (numbers((3, 20), a), numbers((20, 4), b)) if "?" in (a, b) else (wide((3, 20), a), wide((20, 4), b))
        )
        expected = left @ right
        result = tw.matmul(left, right)
        if (
            left.itemsize == right.itemsize == 1 and expected.dtype != np.bool_
        ):  # numpy keeps 8 or 16 bits of these sums.
            assert result.dtype == np.int32
            assert (result == left.astype("i4") @ right.astype("i4")).all()
        elif expected.dtype.kind == "f":  # uint64 beside signed ones.
            np.testing.assert_allclose(result, expected, rtol=1e-12)
        else:
            assert result.dtype == expected.dtype
            assert (result == expected).all()


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("f4", "f8", "f8"),
        ("f2", "f4", "f4"),
        ("i4", "f4", "f8"),
        ("i2", "f4", "f4"),
        ("u1", "f2", "f4"),
        ("?", "f4", "f4"),
        ("c8", "f4", "c8"),
        ("c8", "f8", "c16"),
        ("i8", "c8", "c16"),
        (ml_dtypes.bfloat16, "f4", "f4"),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16, "f4"),
        (ml_dtypes.bfloat16, "i4", "f8"),
        (ml_dtypes.bfloat16, "f2", "f4"),
        ("f2", "f2", "f4"),
    ],
    ids=str,
)
def test_types_are_promoted(a: Any, b: Any, result: str):
    left, right = numbers((3, 6), a), numbers((6, 4), b)
    for x, y in ((left, right), (right.T, left.T)):
        found = tw.matmul(x, y)
        assert found.dtype == result
        assert (found == x.astype(result) @ y.astype(result)).all()


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_bytes_beside_small_floats_lose_no_bits(kind: Any):
    # The larger of the two types does not hold them, but numpy.matmul computes in another.
    left, right = np.array([[2, 1]], kind), np.array([[127], [-31]], "i1")
    assert tw.matmul(left, right) == 223


_ROOMS = {
    "columns": lambda x: np.asfortranarray(x),
    "gaps": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1],
}


@pytest.mark.parametrize("room", _ROOMS.values(), ids=_ROOMS)
def test_out_of_any_strides(room: Any):
    a, b = numbers((3, 6)), numbers((6, 4))
    out = room(np.zeros((3, 4), "f4"))
    assert tw.matmul(a, b, out=out) is out
    assert (out == a @ b).all()


def test_elements_of_out_do_not_overlap():
    out = np.lib.stride_tricks.as_strided(numbers((16,)), (4, 4), (4, 4))
    with pytest.raises(OperandError, match=r"operand out: .*overlap"):
        tw.matmul(numbers((4, 6)), numbers((6, 4)), out=out)


def test_two_vectors_give_a_number():
    x = numbers((6,))
    assert isinstance(tw.matmul(x, x), np.generic)
    assert isinstance(tw.matmul([1, 2], [3, 4]), np.generic)
    assert f"{tw.matmul(x, x):.1f}" == f"{x @ x:.1f}"


@pytest.mark.parametrize("types", [("i2", "i2"), ("u4", "i4"), ("?", "?")], ids=str)
def test_out_of_a_promoted_product(types: tuple[str, str]):
    left, right = numbers((3, 6), types[0]), numbers((6, 4), types[1])
    expected = left @ right
    out = np.zeros_like(expected)
    assert tw.matmul(left, right, out=out) is out
    assert (out == expected).all()
    for wrong, words in (
        (np.zeros((3, 4), "M8[s]"), "is of datetime64"),
        (np.zeros((4, 3), expected.dtype), r"shape \(4, 3\)"),
    ):
        with pytest.raises(OperandError, match=f"operand out: .*{words}"):
            tw.matmul(left, right, out=wrong)
    out.flags.writeable = False
    with pytest.raises(OperandError, match=r"operand out: .*read-only"):
        tw.matmul(left, right, out=out)


_KINDS = ("?", "i1", "u1", "u2", "u4", "i8", "f2", ml_dtypes.bfloat16, "f4", "f8", "c8", ">f4")


@pytest.mark.parametrize("into", _KINDS, ids=str)
def test_out_is_of_any_type_to_which_numpy_casts_the_product(into: Any):
    for a in ("?", "i1", "u1", "i2", "u4", "f2", ml_dtypes.bfloat16, "f4", "c8"):
        left, right = np.abs(numbers((3, 6), a)), np.abs(numbers((6, 4), a))
        expected, out = np.zeros((3, 4), into), np.zeros((3, 4), into)
        try:
            np.matmul(left, right, out=expected)
        except TypeError:
            with pytest.raises(OperandError, match=r"operand out: is of .*of the same kind"):
                tw.matmul(left, right, out=out)
        else:
            assert tw.matmul(left, right, out=out) is out
            assert (out == expected).all()


def test_a_kernel_rounds_into_out_of_the_operands_type():
    left, right = (RANDOM.uniform(-1, 1, shape).astype("f2") for shape in ((4, 64), (64, 4)))
    spec = tw.MatmulSpec(4, 4, 64, a="f16", c="f16")
    out = np.zeros((4, 4), "f2")
    tw.matmul(left, right, out=out)
    assert (out == tw.compile(spec)(left, right)).all()


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "float4_e2m1fn", "float6_e2m3fn"])
def test_elements_of_less_than_a_byte_are_promoted(name: str):
    type_ = getattr(ml_dtypes, name)
    left, right = np.array([[1, 0], [1, 1]], type_), np.array([[1, 1], [0, 1]], type_)
    assert (tw.matmul(left, right) == [[1, 1], [1, 2]]).all()
    assert (tw.matmul(left, right.astype("f4")) == [[1, 1], [1, 2]]).all()


def test_lists():
    assert (tw.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0]]) == [[5.0], [11.0]]).all()
    assert tw.matmul([1, 2, 3], [4, 5, 6]) == 32
    assert (tw.matmul(np.eye(2, dtype="f4"), [[1, 2], [3, 4]]) == [[1, 2], [3, 4]]).all()


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (2.0, np.ones(3), "operand a: has no dimensions"),
        (np.ones(3), np.float32(2), "operand b: has no dimensions"),
        ([[1], [2, 3]], np.ones(3), "operand a: .*numpy makes no array"),
        (np.ones(3), np.ones(4), "operand b: has 4 rows; expected 3"),
        (np.ones((2, 2), "U1"), np.ones((2, 2)), "operand b: is of float64, and a of <U1"),
        (np.ones((2, 2), object), np.ones((2, 2), object), "operand b: is of object"),
        (np.ones((2, 2), "g"), np.ones((2, 2)), "operand b: .*float128|longdouble"),
        (None, np.ones(2), "operand a: is a NoneType of which numpy makes no array"),
        ({1, 2}, np.ones(2), "operand a: is a set of which numpy makes no array"),
    ],
)
def test_what_is_refused(a: Any, b: Any, words: str):
    with pytest.raises(OperandError, match=words):
        tw.matmul(a, b)


def test_lists_of_what_lies_in_other_ways():
    a, b = numbers((4, 6)), numbers((6, 5))
    left = [change(a) for name, change in _STRIDES.items() if name != "overlapping rows"]
    for result, each in zip(tw.matmul_each(left, [b] * len(left)), left, strict=True):
        assert (result == each @ b).all()
    outs = [np.zeros((4, 5), "f8"), np.zeros((5, 4), "f4").T, np.zeros((4, 5), "f4")]
    tw.matmul_each([a] * 3, [b] * 3, out=outs)
    assert all((out == a @ b).all() for out in outs)


def test_out_is_checked():
    a = numbers((4, 4))
    with pytest.raises(OperandError, match="operand out: it overlaps operand a"):
        tw.matmul(a, a, out=a)
    with pytest.raises(OperandError, match="operand out: is a list"):
        tw.matmul(a, a, out=[0.0])
    with pytest.raises(OperandError, match=r"operand out: is of shape \(4,\)"):
        tw.matmul(a, a, out=np.zeros(4, "f4"))
    rows = numbers((2, 3, 4))
    out = np.zeros((2, 4, 4), "f4")[:, :3]
    assert (tw.matmul(rows, a, out=out) == rows @ a).all()


@pytest.mark.parametrize("kind", [Library, Exchanged])
def test_other_libraries(kind: type[Foreign]):
    a, b = numbers((4, 6)), numbers((6, 5))
    for result in (tw.matmul(kind(a), b), tw.matmul(a, kind(b)), tw.matmul(kind(a), b.tolist())):
        assert type(result) is kind
        assert (result.array == a @ b).all()
    out = kind(np.zeros((4, 5), "f4"))
    assert tw.matmul(a, b, out=out) is out
    assert (out.array == a @ b).all()
    vector = tw.matmul(kind(a[0]), b)
    assert type(vector) is kind
    assert vector.array.shape == (5,)


@pytest.mark.parametrize("kind", [Library, Exchanged])
def test_operators_on_other_libraries(kind: type[Foreign]):
    q, k, v = (RANDOM.standard_normal((2, 5, 8)).astype("f4") for _ in range(3))
    expected = tw.attention(q, k, v)
    result = tw.attention(kind(q), k, v)
    assert type(result) is kind
    assert (result.array == expected).all()
    out = kind(np.zeros_like(expected))
    assert tw.attention(q, kind(k), v, kind(np.zeros((5, 5), "f4")), out=out) is out
    np.testing.assert_allclose(out.array, expected, rtol=1e-5, atol=1e-6)
    one = tw.attention(kind(q[0]), k[0], v[0])
    assert type(one) is kind
    np.testing.assert_allclose(one.array, expected[0], rtol=1e-5, atol=1e-6)
    x, w = numbers((1, 6, 6, 4)), numbers((3, 3, 4, 8))
    image = tw.conv2d(kind(x), w)
    assert type(image) is kind
    assert (image.array == tw.conv2d(x, w)).all()
    for call in (lambda: tw.conv2d(x.tolist(), w), lambda: tw.attention(q.tolist(), k, v)):
        with pytest.raises(OperandError, match="is a list"):
            call()


def test_packed_filters_of_another_library():
    x, w = numbers((1, 6, 6, 4)), numbers((3, 3, 4, 8))
    spec = tw.Conv2dSpec(1, 6, 6, 4, oc=8, kh=3, kw=3, w_packed=True)
    kernel: Any = tw.compile(spec)
    result = kernel(Library(x), kernel.pack("w", Foreign(w)))
    assert type(result) is Library
    assert (result.array == tw.conv2d(x, w)).all()
    with pytest.raises(OperandError, match="operand w: is a list"):
        kernel.pack("w", w.tolist())


# Wide integers as specs.


@pytest.mark.parametrize("target", ["host", "x86-64-v3", "neoverse-v2", "rv64gcv"])
@pytest.mark.parametrize("name", ["i32", "i64"])
def test_wide_integers(target: str, name: str):
    spec = tw.MatmulSpec(13, 21, 17, a=name, layout="nt", beta=1)
    kernel = tw.compile(spec, target)
    if kernel.refusal is not None:
        pytest.skip(str(kernel.refusal))
    a, b, c = (wide(shape, spec.c_type.numpy) for shape in (spec.a_shape, spec.b_shape, spec.c_shape))
    out = c.copy()
    kernel(a, b, out=out)
    assert (out == a @ b.T + c).all()
    assert (out == tw.reference(spec, a, b, c)).all()
    assert not tw.error_bound(spec, a, b, c).any()


_MORE: list[dict[str, Any]] = [
    {"epilogue": (tw.relu(),)},
    {"alpha": 2},
    {"beta": "arg"},
    {"prologue_b": (tw.scale_by("k"),)},
]


def test_wide_integers_are_only_multiplied():
    for fields in _MORE:
        with pytest.raises(SpecError):
            tw.MatmulSpec(4, 4, 4, a="i64", **fields)
    with pytest.raises(SpecError, match="i32 on a GPU"):
        tw.compile(tw.MatmulSpec(4, 4, 4, a="i32"), target="sm_90a")


def test_lists_of_products_are_each_as_one_is():
    left = [numbers((3, 4)), numbers((2, 5)), numbers((3, 4)), numbers((4, 3)).T, numbers((3, 4), "i8"), numbers((4,))]
    right = [numbers((4, 2)), numbers((5, 7)), numbers((4, 2)), numbers((4, 2)), numbers((4, 2), "i8"), numbers((4, 2))]
    right[2] = np.repeat(right[2], 2, axis=1)[:, ::2]  # elements of a row are not adjacent
    products = tw.matmul_each([*left, left[0].tolist()], (*right, Foreign(right[0])))
    for a, b, product in zip([*left, left[0]], [*right, right[0]], products, strict=True):
        np.testing.assert_array_equal(np.asarray(product), tw.matmul(a, b))
    assert tw.matmul_each([], []) == []


def test_results_of_lists_go_where_they_are_told():
    a, b = [numbers((3, 4)), numbers((4,))], [numbers((4, 2)), numbers((4, 2))]
    out = [np.zeros((3, 2), "f4"), np.zeros(2, "f4")]
    products = tw.matmul_each(a, b, out=out)
    assert all(mine is given for mine, given in zip(products, out, strict=True))
    for x, y, z in zip(a, b, out, strict=True):
        np.testing.assert_array_equal(z, x @ y)


def test_which_product_of_lists_is_wrong_is_said():
    a, b = numbers((3, 4)), numbers((4, 2))
    with pytest.raises(OperandError, match="has 1 elements; expected 2, as a has"):
        tw.matmul_each([a, a], [b])
    with pytest.raises(OperandError, match="out: has 0 elements"):
        tw.matmul_each([a], [b], out=[])
    with pytest.raises(OperandError, match="b: has 3 rows") as caught:
        tw.matmul_each([a, a], [b, a])
    assert getattr(caught.value, "__notes__", ["in product 1 of the lists"]) == ["in product 1 of the lists"]
    with pytest.raises(OperandError, match="out"):
        tw.matmul_each([a], [b], out=[np.zeros((3, 3), "f4")])
