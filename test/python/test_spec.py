# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Specs: complete after construction, values in every respect, and strict about what they are given."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright.dims import Dim
from tilewright.dtypes import COMBINATIONS
from tilewright.errors import SpecError
from tilewright.payload.epilogues import glu
from tilewright.spec import MatmulSpec

EXTENTS = st.integers(0, 2**20)


def test_types_follow_a():
    assert MatmulSpec(2, 3, 4) == MatmulSpec(2, 3, 4, a="f32", b="f32", c="f32", acc="f32")
    spec = MatmulSpec(2, 3, 4, a="f64")
    assert (spec.a, spec.b, spec.c, spec.acc) == ("f64",) * 4
    assert spec.a_type is spec.b_type is spec.c_type is spec.acc_type
    assert spec.a_type.bits == 64


def test_four_bits_without_a_sign_get_the_one_that_their_bytes_lack():
    met = {a: MatmulSpec(2, 4, 4, a=a, b="u4").b_type.name for a in ("u8", "i8", "bf16")}
    assert met == {"u8": "i8", "i8": "u8", "bf16": "bf16"}
    assert MatmulSpec(2, 4, 4, a="u8", b="i4").b_type.name == "i8"


def test_the_nearest_extent_is_one_that_there_is():
    dim = Dim(4, 48, 4)
    assert [dim.nearest(size) for size in (0, 5, 18, 47, 50)] == [4, 4, 16, 44, 48]
    assert all(dim.nearest(size) in dim for size in range(60))
    assert [size for size in range(60) if size in dim] == list(range(4, 49, 4))


def test_axes_of_one_entry_take_no_loop():
    spec = MatmulSpec(2, 3, 4, batch=(5, 7, 1), a_batch=(1, 7, 1), b_batch=(1, 1))
    assert (spec.batch_axes, spec.a_axes, spec.b_axes) == ((0, 1), (1,), ())


def test_operations_are_those_of_all_products():
    assert MatmulSpec(2, 3, 4, batch=(5,)).flops == 2 * 5 * 2 * 3 * 4
    assert MatmulSpec(2, 3, 4, epilogue=(glu(), glu("relu"))).flops == 3 * 2 * 2 * 3 * 4


def test_rows_that_meet_one_b_are_those_of_all_entries_that_share_it():
    whole, shared = MatmulSpec(2, 3, 4, batch=(5, 7)), MatmulSpec(2, 3, 4, batch=(5, 7), b_batch=(7,))
    assert (whole.rows_of_b, shared.rows_of_b) == (2, 2 * 5)
    assert MatmulSpec(2, 3, 4, batch=(5, 7), b_batch=(5, 1)).rows_of_b == 2 * 7


def test_what_only_rounds_the_sums_is_fused_too():
    assert not MatmulSpec(2, 3, 4, a="bf16").fused
    assert MatmulSpec(2, 3, 4, a="bf16", c="bf16").fused


@pytest.mark.parametrize("types", COMBINATIONS, ids=str)
def test_every_combination_is_a_spec(types):
    spec = MatmulSpec(2, 3, 4, **dataclasses.asdict(types))
    assert (spec.a, spec.b, spec.acc, spec.c) == (types.a, types.b, types.acc, types.c)
    assert pickle.loads(pickle.dumps(spec)) == spec
    if types.c == types.acc:
        assert MatmulSpec(2, 3, 4, a=types.a, b=types.b) == spec


@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from(["f32", "f64"]))
def test_specs_are_values(m, n, k, a):
    spec = MatmulSpec(m, n, k, a=a)
    for twin in (MatmulSpec(m, n, k, a=a, c=a), pickle.loads(pickle.dumps(spec)), dataclasses.replace(spec)):
        assert twin == spec
        assert hash(twin) == hash(spec)
    assert (spec.a_shape, spec.b_shape, spec.c_shape) == ((m, k), (k, n), (m, n))
    assert spec.flops == 2 * m * n * k
    assert str(spec) == f"{m}x{n}x{k} {a} nn"


@pytest.mark.parametrize(
    ("layout", "a", "b"),
    [("nn", (3, 7), (7, 5)), ("nt", (3, 7), (5, 7)), ("tn", (7, 3), (7, 5)), ("tt", (7, 3), (5, 7))],
)
def test_shapes_are_those_of_what_is_stored(layout, a, b):
    spec = MatmulSpec(3, 5, 7, layout=layout)
    assert (spec.a_shape, spec.b_shape, spec.c_shape) == (a, b, (3, 5))
    assert [each.shape for each in spec.operands] == [a, b]
    assert (spec.a_transposed, spec.b_transposed) == (a == (7, 3), b == (5, 7))
    assert str(spec) == f"3x5x7 f32 {layout}"


def test_beta_1_is_another_spec():
    spec = MatmulSpec(2, 3, 4, beta=1)
    assert spec != MatmulSpec(2, 3, 4)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert str(spec) == "2x3x4 f32 nn beta=1"


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MatmulSpec(1, 2, 3).m = 4  # type: ignore[misc]


@pytest.mark.parametrize("number", [np.int64(7), np.uint8(7)])
def test_integers_of_numpy_become_ints(number):
    spec = MatmulSpec(number, number, number)
    assert type(spec.m) is type(spec.n) is type(spec.k) is int
    assert spec == MatmulSpec(7, 7, 7)


@pytest.mark.parametrize("field", ["m", "n", "k"])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (-1, "is -1; expected an extent from 0"),
        (2**31, "is 2147483648; expected an extent from 0 to 2147483647"),
        (True, "is True, a bool; expected an int"),
        (np.True_, "bool.*expected an int"),
        (4.0, r"is 4\.0, a float; expected an int"),
        (np.float32(4), "a float32; expected an int"),
        ("4", "is '4', a str; expected an int"),
    ],
)
def test_extents_are_checked(field, value, match):
    with pytest.raises(SpecError, match=f"^MatmulSpec: {field}.*{match}"):
        MatmulSpec(**{"m": 1, "n": 2, "k": 3, field: value})


def test_operands_past_64_bit_offsets_are_refused():
    huge = 2**31 - 1
    MatmulSpec(huge, 1, 1, a="f64")
    with pytest.raises(SpecError, match="A of 2147483647x2147483647 f32 has more bytes"):
        MatmulSpec(huge, 1, huge)
    with pytest.raises(SpecError, match="B of"):
        MatmulSpec(1, huge, huge)
    with pytest.raises(SpecError, match=r"C of .* f64"):
        MatmulSpec(huge, huge, 1, a="f64")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"a": "s8"}, r"MatmulSpec, a: unknown element type 's8'; expected one of f32, f64, f16, bf16, i8, u8, i32"),
        ({"a": "float32"}, "Write 'f32'"),
        ({"a": np.float32}, "MatmulSpec, a: unknown element type"),
        ({"b": "f8"}, "MatmulSpec, b: unknown"),
        ({"c": ""}, "MatmulSpec, c: unknown"),
        ({"acc": 3}, "MatmulSpec, acc: unknown"),
        (
            {"b": "f64"},
            "A of f32, B of f64 summed in f32 to C of f32 is not supported yet; expected one of f32×f32→f32, ",
        ),
        ({"a": "i32", "b": "i8"}, "A of i32, B of i8 summed in i32 to C of i32 is not supported yet"),
        ({"a": "i8", "b": "bf16"}, "A of i8, B of bf16 summed in i32 to C of i32 is not supported yet"),
        ({"a": "bf16", "acc": "bf16"}, "summed in bf16 to C of bf16 is not supported yet"),
        ({"a": "bf16", "c": "f16"}, r"C of f16 is not supported yet; .* bf16×bf16→bf16 \(summed in f32\), "),
        ({"c": "f64"}, "C of f64 is not supported yet"),
        ({"acc": "f64"}, "summed in f64 to C of f64 is not supported yet"),
        ({"layout": "nx"}, "layout is 'nx'; expected one of nn, nt, tn, tt"),
        ({"layout": None}, "layout is None"),
        ({"batch": [2]}, r"batch is \[2\]; expected a tuple"),
        ({"batch": (2,), "a_batch": (3,)}, r"a_batch is \(3,\) for batch \(2,\); expected the last extents of batch"),
        ({"beta": "1"}, "beta is '1'; expected a finite number, or 'arg'"),
        ({"beta": False}, "beta is False"),
        ({"beta": None}, "beta is None"),
        ({"b_packed": 1}, "b_packed is 1; expected False or True"),
        ({"epilogue": "gelu"}, "epilogue is 'gelu'; expected a tuple"),
        ({"epilogue": ("gelu",)}, "an entry of the epilogue is 'gelu'; expected entries such as"),
    ],
)
def test_other_fields_are_checked(fields, match):
    with pytest.raises(SpecError, match=match) as caught:
        MatmulSpec(1, 2, 3, **fields)
    assert str(caught.value).startswith("MatmulSpec")


def test_from_dtypes():
    assert MatmulSpec.from_dtypes(1, 2, 3) == MatmulSpec(1, 2, 3)
    assert MatmulSpec.from_dtypes(1, 2, 3, "f64") == MatmulSpec(1, 2, 3, a="f64")
    assert MatmulSpec.from_dtypes(1, 2, 3, "f64,f64,f64", layout="nn") == MatmulSpec(1, 2, 3, a="f64")
    assert MatmulSpec.from_dtypes(1, 2, 3, "u8") == MatmulSpec(1, 2, 3, a="u8", b="u8", c="i32")
    assert MatmulSpec.from_dtypes(1, 2, 3, "u8,i8,i32") == MatmulSpec(1, 2, 3, a="u8", b="i8")
    assert str(MatmulSpec.from_dtypes(1, 2, 3, "bf16")) == "1x2x3 bf16,bf16,f32 nn"


@pytest.mark.parametrize("dtypes", ["f32,f32", "f32,f32,f32,f32", None])
def test_from_dtypes_takes_one_or_three(dtypes):
    with pytest.raises(SpecError, match=r"expected one type \('f32'\), or those of A, B and C"):
        MatmulSpec.from_dtypes(1, 2, 3, dtypes)


@pytest.mark.parametrize("dtypes", ["", "f32,f32,s8", "f32, f32, f32"])
def test_from_dtypes_names_the_unknown_type(dtypes):
    with pytest.raises(SpecError, match="unknown element type"):
        MatmulSpec.from_dtypes(1, 2, 3, dtypes)
