# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of few columns, which are multiplied in vectors along K: what they are chosen for, and their numbers."""

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.schedules import select

ZEN_4, ZEN_5 = targets.get("znver4"), targets.get("znver5")


@pytest.mark.parametrize(
    ("types", "shape", "layout", "strategy"),
    [
        ("f32", (2048, 8, 1024), "nn", "inner_product"),
        ("f32", (2048, 8, 1024), "nt", "inner_product"),
        ("f32", (2048, 8, 1024), "tn", "unpacked"),
        ("f32", (16, 8, 1024), "nn", "unpacked"),  # the copy of B is not repaid
        ("f32", (2048, 8, 8), "nn", "unpacked"),  # the sums of lanes take too long
        ("f32", (2048, 8, 2048), "nn", "inner_product"),
        ("f32", (2048, 8, 32768), "nn", "unpacked"),  # B does not stay in L2
        ("f32", (512, 16, 256), "nn", "unpacked"),  # vectors along N are full
        ("f32", (512, 3, 64), "nn", "inner_product"),
        ("bf16,bf16,f32", (32768, 8, 512), "nn", "inner_product"),
        ("u8,i8,i32", (32768, 8, 512), "nn", "inner_product"),
        ("u8,i8,i32", (512, 8, 64), "nt", "packed"),
        ("f64", (256, 12, 300), "nt", "inner_product"),
        ("f64", (256, 8, 3000), "nn", "unpacked"),
    ],
)
def test_few_columns_are_multiplied_along_k_where_that_pays(types, shape, layout, strategy):
    m, n, k = shape
    assert select.choose(tw.MatmulSpec.from_dtypes(m, n, k, types, layout=layout), ZEN_5).strategy == strategy


@pytest.mark.parametrize(
    ("types", "shape", "strategy"),
    [
        # Two multiply-adds of half a vector start in a cycle, as one of a whole one does.
        ("f32", (500, 8, 32), "unpacked"),
        ("f32", (500, 8, 500), "inner_product"),
        ("f32", (65536, 8, 500), "inner_product"),  # A comes from memory
        ("f32", (500, 4, 500), "inner_product"),
        ("f32", (33, 7, 4096), "inner_product"),  # rows of A are in the same sets of L1
        ("f32", (2000, 24, 64), "unpacked"),  # three halves of a vector
        ("bf16,bf16,f32", (500, 8, 500), "inner_product"),
    ],
)
def test_half_a_vector_is_no_loss_where_two_halves_start_at_once(types, shape, strategy):
    m, n, k = shape
    assert select.choose(tw.MatmulSpec.from_dtypes(m, n, k, types), ZEN_4).strategy == strategy


@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32", "u8,i8,i32", "i8,i8,i32", "f16,f16,f32", "f64"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_their_numbers_are_right(types, layout):
    for (m, n, k), further in (
        ((301, 7, 515), {}),
        ((70, 13, 300), {"beta": 1}),
        ((40, 2, 333), {"batch": (3,)}),
        ((300, 3, 200), {"epilogue": (tw.relu(),)}),
        ((50, 9, 300), {"epilogue": (tw.relu(),), "beta": 1}),
    ):
        spec = tw.MatmulSpec.from_dtypes(m, n, k, types, layout=layout, **further)
        rng = np.random.default_rng(1)
        a, b, c = (
            rng.integers(0, 3, shape).astype(to_numpy(element))
            for shape, element in (
                (spec.a_shape, spec.a_type),
                (spec.b_shape, spec.b_type),
                (spec.c_shape, spec.c_type),
            )
        )
        for threads in (1, 2):
            kernel = tw.compile(spec, schedule="inner_product", threads=threads)
            start = {"out": c.copy()} if spec.beta else {}
            wanted = tw.reference(spec, a, b, **({"c": c} if spec.beta else {}))
            assert (kernel(a, b, **start) == wanted).all(), f"{spec}, {threads} threads"


def test_columns_of_any_number_that_would_have_to_be_copied_are_refused():
    with pytest.raises(tw.ScheduleError, match="any number or length; expected an N and a K that are known or bounded"):
        tw.compile(tw.MatmulSpec(64, None, 128), schedule="inner_product")


@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32", "u8,i8,i32", "f64"])
@pytest.mark.parametrize("further", [{}, {"beta": 1}, {"epilogue": (tw.relu(),)}], ids=str)
def test_a_few_dynamic_columns_are_copied_once_and_are_right(types, further):
    kernel = tw.compile(
        tw.MatmulSpec.from_dtypes(None, tw.Dim(2, 15), tw.Dim(1, 4112), types, **further), schedule="inner_product"
    )
    rng = np.random.default_rng(5)
    for m, n, k in ((1, 2, 1), (7, 3, 64), (50, 8, 515), (33, 15, 1000), (6, 5, 4112)):
        spec = kernel.spec.at(m, n, k)
        shapes = (spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type), (spec.c_shape, spec.c_type)
        a, b, c = (rng.integers(0, 3, shape).astype(to_numpy(element)) for shape, element in shapes)
        start = {"out": c.copy()} if spec.beta else {}
        wanted = tw.reference(spec, a, b, **({"c": c} if spec.beta else {}))
        assert (kernel(a, b, **start) == wanted).all(), str(spec)


@pytest.mark.parametrize(
    ("types", "n", "layout", "epilogue"),
    [
        ("f32", 7, "nn", ()),
        ("f32", 7, "nt", (tw.relu(),)),
        ("f32", 9, "nn", (tw.relu(),)),
        ("bf16,bf16,f32", 4, "nn", ()),
        ("bf16,bf16,f32", 4, "nt", ()),
        ("u8,i8,i32", 5, "nn", ()),
        ("u8,i8,i32", 5, "nt", ()),
        ("f64", 5, "nn", (tw.relu(),)),
        ("f64", 5, "nt", ()),
    ],
    ids=str,
)
def test_a_packed_b_of_few_columns_lies_along_k_and_serves_every_number_of_rows(types, n, layout, epilogue):
    rng = np.random.default_rng(2)
    how = {"layout": layout, "epilogue": epilogue}
    made = [tw.compile(tw.MatmulSpec.from_dtypes(m, n, 1031, types, b_packed=True, **how)) for m in (1, 70, None)]
    # Tile registers multiply few columns faster.
    tiles = targets.resolve("host").dot(*made[0].spec.multiplied).is_tile
    assert [each.metadata.schedule for each in made] == [select.PANELS if tiles else "inner_product"] * 3
    spec = made[1].spec
    b = rng.integers(0, 3, spec.b_shape).astype(to_numpy(spec.b_type))
    packed = made[0].pack_b(b)
    for kernel, rows in zip(made, (1, 70, 33), strict=True):
        a = rng.integers(0, 3, (rows, 1031)).astype(to_numpy(spec.a_type))
        plain = tw.MatmulSpec.from_dtypes(rows, n, 1031, types, **how)
        assert (kernel(a, packed) == tw.reference(plain, a, b)).all()


@pytest.mark.parametrize("b_packed", [False, True])
def test_tile_registers_multiply_few_columns_faster(b_packed):
    spec = tw.MatmulSpec(500, 7, 512, a="bf16", c="f32", b_packed=b_packed)
    assert select.choose(spec, targets.get("sapphirerapids")).strategy == select.PANELS


def test_a_packed_b_of_a_deterministic_product_lies_in_panels():
    spec = tw.MatmulSpec(64, 7, 1031, b_packed=True, deterministic=True)
    assert select.choose(spec, ZEN_4).strategy == select.PANELS
