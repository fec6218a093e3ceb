# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model that gives each shape its strategy and sizes: what it decides, and that it decides much the same for neighbors."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tilewright as tw
from tilewright.dtypes import dtype, to_numpy
from tilewright.schedules import select
from tilewright.schedules.models import blocking, register_tiles, streamed_blocks, threads
from tilewright.targets import get

ZEN_4, ZEN_5 = get("znver4"), get("znver5")
X86 = ["x86-64", "x86-64-v3", "x86-64-v4", "znver4", "znver5", "sapphirerapids"]


def choice(m: int, n: int, k: int, target=ZEN_4, **how) -> select.Choice:
    return select.choose(tw.MatmulSpec(m, n, k, **how), target)


@pytest.mark.parametrize(
    ("shape", "strategy"),
    [
        ((1024, 1024, 1024), "packed"),
        ((64, 64, 64), "unpacked"),
        ((3, 5, 7), "unpacked"),
        ((1, 4096, 4096), "streamed"),
        ((56, 4096, 4096), "streamed"),
        ((128, 4096, 4096), "streamed"),
        ((128, 3072, 768), "unpacked"),  # the last-level cache holds B
        ((225, 4096, 4096), "unpacked"),  # B would be read too often
        ((1025, 4096, 4096), "packed"),
        ((8, 512, 512), "unpacked"),  # B stays in a cache
        ((8, 8, 1 << 21), "unpacked"),  # no vector of columns
        ((64, 64, 65536), "unpacked"),  # B is one panel as it lies
        ((4096, 1, 4096), "inner_product"),
        ((4096, 1, 4), "unpacked"),
        ((2048, 8, 2048), "inner_product"),
    ],
    ids=str,
)
def test_strategy(shape, strategy):
    assert choice(*shape).strategy == strategy


@pytest.mark.parametrize(
    ("shape", "strategy", "ahead"),
    [
        ((64, 64, 64), "unpacked", 0),  # L1 holds B
        ((128, 128, 128), "unpacked", 4),
        ((384, 384, 384), "packed", 8),
        ((127, 384, 384), "packed", 8),
        ((48, 384, 384), "unpacked", 4),
        ((24, 600, 600), "unpacked", 4),
        ((12, 600, 600), "streamed", 0),  # whole rows of a B beyond half of L2
        ((12, 384, 384), "unpacked", 4),  # and not of a smaller one
        ((96, 1536, 1024), "packed", 8),  # each element is read often
        ((512, 48, 512), "unpacked", 4),  # and here not
        ((64, 1000, 2048), "packed", 8),  # often enough, of a B beyond L2
        ((32, 448, 1024), "unpacked", 4),  # not often enough
        ((8, 1024, 1024), "streamed", 0),
        ((4, 1024, 1024), "streamed", 0),
        ((12, 1024, 1024), "streamed", 0),
        ((20, 16384, 80), "unpacked", 4),  # C passes too often
        ((64, 1024, 1024), "packed", 8),
        ((512, 512, 512), "packed", 8),
    ],
    ids=str,
)
def test_a_core_that_waits_for_l2(shape, strategy, ahead):
    """It prefetches rows of B, and packs where that costs less than waiting."""
    found = choice(*shape, target=get("cascadelake"))
    assert (found.strategy, found.parameters.rows_ahead) == (strategy, ahead)
    assert choice(*shape, target=get("znver5")).parameters.rows_ahead == 0
    _, n, k = shape
    if k * n * 4 <= blocking.NEAR * get("cascadelake").l2.bytes:
        assert choice(*shape, target=replace(get("cascadelake"), rows_ahead=0)).strategy == "unpacked"


@pytest.mark.parametrize(
    ("shape", "strategy"),
    [
        ((5, 512, 480), "unpacked"),
        ((5, 512, 520), "streamed"),  # half of L2
        ((24, 450, 1000), "unpacked"),
        ((24, 500, 1000), "streamed"),  # most of it, whatever the rows
        ((64, 500, 1000), "streamed"),
        ((64, 2000, 760), "packed"),  # C passes too often
        ((65, 500, 1000), "packed"),
    ],
    ids=str,
)
def test_such_a_core_with_more_l2(shape, strategy):
    """It goes through whole rows of B for more rows, also of a B that L2 would barely hold."""
    assert choice(*shape, target=get("sapphirerapids")).strategy == strategy


@pytest.mark.parametrize(
    ("shape", "types", "strategy"),
    [
        ((3, 2048, 2048), "f32", "streamed"),
        ((4, 2048, 2048), "f32", "unpacked"),
        ((32, 2047, 1000), "f64", "streamed"),
        ((8, 2048, 2048), "f64", "unpacked"),
        ((1, 2048, 2048), "u8,i8,i32", "unpacked"),
    ],
    ids=str,
)
def test_threads_of_such_a_core_share_parts_of_rows_seldom(shape, types, strategy):
    m, n, k = shape
    spec, target = tw.MatmulSpec.from_dtypes(m, n, k, types), get("sapphirerapids")
    assert select.choose(spec, target).strategy == "streamed"
    assert select.choose(spec, target, threads=2).strategy == strategy
    same = replace(spec, deterministic=True)
    assert select.choose(same, target, threads=2).strategy == select.choose(same, target).strategy


@pytest.mark.parametrize(("m", "strategy"), [(20, "streamed"), (32, "streamed"), (48, "packed"), (64, "packed")])
def test_dynamic_kernels_of_such_a_core_pack_sooner(m, strategy):
    """Their sums have no buffer of their own."""
    spec = tw.MatmulSpec(None, 1001, 1500)
    assert select.first(spec, replace(spec, m=m), get("sapphirerapids")) == strategy


@pytest.mark.parametrize(
    ("shape", "depth"),
    [
        ((64, 256, 1024), 512),  # rows of 1 KiB: L2 has 16 lines each for 1024 of them
        ((64, 512, 1024), 256),
        ((64, 1024, 512), 128),
        ((64, 2048, 512), 128),  # less is not worth it
        ((64, 384, 1024), 512),
        ((64, 384, 384), 384),
    ],
    ids=str,
)
def test_strips_that_it_waits_for_stay_in_l2(shape, depth):
    """A strip of B is no deeper than half of the lines that L2 has for its rows."""
    spec = tw.MatmulSpec(*shape)
    assert blocking.unpacked_blocking(spec, get("cascadelake")).kc == depth
    assert blocking.unpacked_blocking(spec, replace(get("cascadelake"), rows_ahead=0)).kc >= depth


def test_rows_are_prefetched_into_l1():
    """Four lines of B for each step over K, in loops for all rows and for the last ones; none without."""
    spec, sizes = tw.MatmulSpec(40, 64, 200), {"mr": 6, "nr": 64, "kc": 200}
    for rows, found in ((4, 8), (0, 0)):
        kernel = tw.compile(spec, "cascadelake", schedule="unpacked", parameters={**sizes, "rows_ahead": rows})
        assert kernel.asm["asm"].count("prefetcht0") == found


@pytest.mark.parametrize(
    ("types", "shape", "strategy"),
    [
        ("f32", (16, 64, 64), "inner_product"),
        ("f32", (17, 64, 64), "packed"),  # a sum for each vector of K takes as long as packing
        ("f32", (256, 1024, 1024), "inner_product"),
        ("f32", (257, 1024, 1024), "packed"),
        ("f32", (128, 1024, 4096), "inner_product"),
        ("f32", (129, 1024, 4096), "packed"),  # A does not stay in L2
        ("u8,i8,i32", (32, 1024, 1024), "inner_product"),
        ("i8", (8, 1024, 1024), "inner_product"),
        ("i8", (24, 1024, 1024), "inner_product"),  # columns are summed up beside it
        ("i8", (25, 1024, 1024), "packed"),
        ("f32", (1, 4, 16), "inner_product"),
        ("f32", (1, 16, 15), "packed"),  # no vector of K
    ],
    ids=str,
)
def test_strategy_of_a_transposed_b(types: str, shape: tuple[int, int, int], strategy: str) -> None:
    assert select.choose(tw.MatmulSpec.from_dtypes(*shape, types, layout="nt"), ZEN_4).strategy == strategy


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_streamed_sums_fit_the_registers_and_its_strip_a_quarter_of_l2(target, element):
    target = get(target)
    lanes = target.lanes(dtype(element))
    for m in range(1, blocking.most_rows(target) + 1):
        p = streamed_blocks.streamed_blocking(tw.MatmulSpec(m, 28672, 4096, a=element), target)
        assert p.mr == m or (p.nr > lanes and p.mr == blocking.even(m, p.mr))
        assert p.mr * (p.nr // lanes) + p.nr // lanes + 1 <= target.vector_registers
        assert p.nr % lanes == 0
        wide = target.fma_per_cycle > 1 and target.vector_registers == 32 and not target.rows_ahead
        if wide and 2 <= m <= 7:  # Tiles of all rows go down columns, in blocks that L2 does not hold.
            assert p.mr == m
            assert p.nc == 28672
            continue
        assert p.nc % p.nr == 0
        assert max(m, p.kc) * p.nc * dtype(element).bytes <= target.l2.bytes // 4 + max(m, p.kc) * p.nr * 8


@pytest.mark.parametrize(
    ("types", "shape", "sizes"),
    [
        ("f32", (5, 2048, 2048), (5, 80, 512)),
        ("f32", (8, 2048, 2048), (8, 48, 512)),
        ("f32", (5, 256, 8192), (5, 64, 1024)),  # What half of L2 holds would be prefetched as a block.
        ("bf16", (4, 2048, 4096), (4, 64, 512)),
    ],
    ids=str,
)
def test_few_rows_go_down_columns_of_a_b_that_the_last_cache_holds(
    types: str, shape: tuple[int, int, int], sizes: tuple[int, int, int]
) -> None:
    choice = select.choose(tw.MatmulSpec.from_dtypes(*shape, types), get("znver5"))
    p = choice.parameters
    assert (p.mr, p.nr, p.kc) == sizes
    assert p.nc == shape[1]
    assert p.kc * p.nc * dtype(types).bytes > get("znver5").l2.bytes // 2


def test_streamed_threads_have_columns_of_their_own():
    spec = tw.MatmulSpec(8, 4096, 4096)
    one, two = (select.sized("streamed", spec, ZEN_4, threads=threads).parameters for threads in (1, 2))
    assert two.nc == 2048
    assert (two.mr, two.nr, two.kc) == (one.mr, one.nr, one.kc)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_vectors_are_no_wider_than_the_columns_need(target, element):
    target, element = get(target), dtype(element)
    whole = target.lanes(element)
    for n in range(1, 40):
        lanes = register_tiles.lanes_for(tw.MatmulSpec(8, n, 8, a=element.name), target)
        assert lanes <= whole
        assert lanes >= n or lanes in (whole, whole // target.passes)
        assert lanes < 2 * n or lanes * element.bits == 128


def test_halves_of_registers_waste_less_where_they_take_half_the_time():
    chosen = {n: register_tiles.lanes_for(tw.MatmulSpec(1000, n, 1000), ZEN_4) for n in (16, 24, 33, 48, 56, 1000)}
    assert chosen == {16: 16, 24: 8, 33: 8, 48: 16, 56: 8, 1000: 16}
    assert {register_tiles.lanes_for(tw.MatmulSpec(1000, n, 1000), get("znver5")) for n in chosen} == {16}
    wide, narrow = register_tiles.at_width(ZEN_4, dtype("f32"), 16), register_tiles.at_width(ZEN_4, dtype("f32"), 8)
    assert wide is ZEN_4
    assert (narrow.fma_per_cycle, narrow.loads_per_cycle) == (2 * wide.fma_per_cycle, 2 * wide.loads_per_cycle)


def test_rows_of_b_are_interleaved_for_many_rows_at_once():
    def tile(m: int, a: str, target: str = "znver4") -> tuple[int, int]:
        sizes = blocking.unpacked_blocking(tw.MatmulSpec(m, 600, 600, a=a, b="i8" if a == "u8" else a), get(target))
        return sizes.mr, sizes.nr

    assert [tile(m, "bf16") for m in (4, 8, 12, 20, 32)] == [(4, 64), (8, 48), (12, 32), (20, 16), (16, 16)]
    assert tile(20, "u8") == (20, 16)
    assert tile(20, "bf16", "znver5") != (20, 16)
    assert tile(20, "i8") != (20, 16)  # The signs of A would be turned for each register of columns.


@pytest.mark.parametrize(("a", "b", "c"), [("bf16", "bf16", "f32"), ("u8", "i8", "i32"), ("f32", "f32", "f32")])
def test_panels_are_of_halves_of_registers_where_these_waste_less(a, b, c):
    spec = tw.MatmulSpec(1000, 33, 1000, a=a, b=b, c=c)
    assert register_tiles.panel_lanes(spec, ZEN_4) == 8
    assert register_tiles.panel_lanes(spec, get("znver5")) == 16
    assert register_tiles.panel_lanes(replace(spec, n=64), ZEN_4) == 16
    assert register_tiles.panel_lanes(replace(spec, b_packed=True), ZEN_4) == 16  # Its panels are for every M.
    kernel = tw.compile(spec, target="znver4", schedule="packed", cache=False)
    products = [line for line in kernel.asm["asm"].splitlines() if re.search("vdpbf16ps|vpdpbusd|vfmadd", line)]
    assert products
    assert all("ymm" in line for line in products)


def test_the_last_columns_are_half_a_register_where_they_fit_in():
    spec = tw.MatmulSpec(1000, 150, 1000)
    sizes = blocking.unpacked_blocking(spec, ZEN_4)
    assert register_tiles.lanes_for(spec, ZEN_4) == 16
    assert 150 % sizes.nr <= 8
    assert register_tiles.last_lanes(spec, ZEN_4, sizes.nr) == 8
    assert register_tiles.last_lanes(spec, get("znver5"), sizes.nr) == 16
    assert blocking.unpacked_blocking(replace(spec, m=40, n=24, a="bf16", b="bf16", c="f32"), ZEN_4).nr == 16
    for each, product in ((spec, "vfmadd"), (tw.MatmulSpec(40, 24, 500, a="bf16", b="bf16", c="f32"), "vdpbf16ps")):
        lines = tw.compile(each, target="znver4", schedule="unpacked", cache=False).asm["asm"].splitlines()
        for register in ("ymm", "zmm"):
            assert any(product in line and register in line for line in lines)


def test_pairs_of_bf16_are_broadcast_from_memory_where_each_is_used_once():
    # A broadcast of its own takes a unit of Zen 4's that multiplies: 1000 x 16 x 500 ran at 166 GFLOP/s, and at 229 so.
    loop = tw.compile(tw.MatmulSpec(1000, 16, 500, a="bf16", b="bf16", c="f32"), target="znver4", cache=False).asm[
        "asm"
    ]
    products = [line for line in loop.splitlines() if "vdpbf16ps" in line]
    assert products
    assert sum("{1to16}" in line for line in products) >= len(products) - 1


def test_narrow_elements_are_multiplied_in_whole_registers():
    for a, b in (("bf16", "bf16"), ("u8", "i8"), ("f16", "f16")):
        assert register_tiles.lanes_for(tw.MatmulSpec(8, 3, 8, a=a, b=b), ZEN_4) == 16


@pytest.mark.parametrize(
    ("a", "b", "shape", "strategy"),
    [
        ("bf16", "bf16", (8, 4096, 4096), "streamed"),
        ("bf16", "bf16", (8, 1024, 1024), "unpacked"),
        ("bf16", "bf16", (32, 4096, 4096), "packed"),
        ("bf16", "bf16", (8, 1024, 1023), "unpacked"),
        ("bf16", "bf16", (18, 64, 64), "unpacked"),
        ("bf16", "bf16", (64, 64, 64), "unpacked"),
        ("bf16", "bf16", (100, 64, 64), "unpacked"),
        ("bf16", "bf16", (1000, 64, 64), "packed"),
        ("bf16", "bf16", (18, 2048, 2048), "packed"),
        ("u8", "i8", (6, 64, 64), "unpacked"),
        ("u8", "i8", (18, 64, 64), "unpacked"),
        ("u8", "i8", (32, 64, 64), "packed"),
        ("i8", "i8", (18, 64, 64), "packed"),
        ("f16", "f16", (8, 1024, 1024), "streamed"),
        ("u8", "i8", (4, 1024, 1024), "unpacked"),
        ("u8", "i8", (16, 4096, 4096), "packed"),
        ("u8", "i8", (2048, 8, 2048), "inner_product"),
        ("i8", "i8", (2048, 16, 2048), "packed"),
    ],
)
def test_narrow_elements_are_packed_when_they_would_be_widened_too_often(a, b, shape, strategy):
    assert select.choose(tw.MatmulSpec(*shape, a=a, b=b), ZEN_4).strategy == strategy


@pytest.mark.parametrize(("a", "b"), [("bf16", "bf16"), ("u8", "i8"), ("i8", "i8")])
@pytest.mark.parametrize("k", [4, 12, 44, 45])
@pytest.mark.parametrize("schedule", ["streamed", "unpacked"])
def test_narrow_elements_with_blocks_of_k_that_do_not_fit(a, b, k, schedule):
    spec = tw.MatmulSpec(3, 40, k, a=a, b=b)
    kernel = tw.compile(spec, schedule=schedule, parameters={"kc": 8})
    rng = np.random.default_rng(k)
    operands = [
        rng.integers(-100 if kind.kind == "int" else 0, 100, shape).astype(to_numpy(kind))
        for kind, shape in ((spec.a_type, spec.a_shape), (spec.b_type, spec.b_shape))
    ]
    assert (kernel(*operands) == tw.reference(spec, *operands)).all()


def test_rows_side_by_side_have_their_lines_in_l1():
    # 32 KiB in 8 ways: a way of 4096 bytes.
    assert blocking.rows_in_l1(ZEN_4, 4096) == blocking.rows_in_l1(ZEN_4, 8192) == 8
    assert blocking.rows_in_l1(ZEN_4, 2048) == 16
    assert blocking.rows_in_l1(ZEN_4, 4096 + 64) >= 64
    for k in (1000, 1024, 2047, 2048, 4096):
        spec = tw.MatmulSpec(2048, 8, k)
        assert blocking.unpacked_blocking(spec, ZEN_4).mr <= blocking.rows_in_l1(ZEN_4, 4 * k)


@pytest.mark.parametrize(("types", "shape", "kc"), [("f32", (700, 336, 4096), 820), ("bf16", (2048, 16, 2048), 2048)])
def test_rows_of_a_panel_have_their_lines_in_l1(types: str, shape: tuple[int, int, int], kc: int) -> None:
    spec = tw.MatmulSpec.from_dtypes(*shape, types)
    p = blocking.packed_blocking(spec, ZEN_4)
    assert p.mr <= blocking.rows_in_l1(ZEN_4, p.kc * blocking.panel_bytes(spec, ZEN_4))
    assert p.kc == kc


def test_a_row_of_a_staged_buffer_leaves_the_sets_of_the_row_above():
    line = ZEN_4.l1.line
    for element in map(dtype, ("f32", "f64")):
        gap = blocking.row_gap(ZEN_4, element) * element.bytes
        assert gap % line == 0
        assert math.gcd(gap // line, ZEN_4.l1.sets) == 1


def test_packed_blocks_count_the_bytes_that_panels_hold():
    f32, bf16 = (tw.MatmulSpec(4096, 4096, 4096, a=a, b=a, c="f32") for a in ("f32", "bf16"))
    assert blocking.panel_bytes(f32, ZEN_4) == 4
    assert blocking.panel_bytes(bf16, ZEN_4) == 2  # it multiplies bf16
    assert blocking.panel_bytes(bf16, get("x86-64-v3")) == 4  # packing widens it
    for spec in (f32, bf16):
        p = blocking.packed_blocking(spec, ZEN_4)
        slack = p.mr * p.kc * 4
        assert p.mc * p.kc * blocking.panel_bytes(spec, ZEN_4) <= ZEN_4.l2.bytes // 2 + slack


def test_threads_that_share_a_block_of_a_have_one_that_is_larger():
    spec = tw.MatmulSpec(1024, 1024, 1024)
    one, two = (select.sized("packed", spec, ZEN_4, threads=each).parameters for each in (1, 2))
    assert one.mc == 132
    assert two.mc == 258
    assert (two.mr, two.nr, two.nc, two.kc) == (one.mr, one.nr, one.nc, one.kc)


def test_small_products_use_fewer_threads():
    assert [threads.used(tw.MatmulSpec(x, x, x), ZEN_4, 8) for x in (64, 160, 1024)] == [1, 6, 8]


def test_threads_take_the_entries_of_a_batch_where_there_are_enough_for_all():
    def takes(entries: int, size: int, count: int) -> bool:
        return threads.take_matrices(tw.MatmulSpec(size, size, size, batch=(entries,)), count)

    assert [takes(entries, 512, 4) for entries in (3, 4, 5, 8, 9, 40, 41)] == [
        False,
        True,
        False,
        True,
        False,
        True,
        True,
    ]
    assert takes(5, 64, 4)
    assert not takes(3, 64, 4)
    assert not takes(4, 512, 1)


def test_panels_of_several_products_share_the_cache_that_one_has():
    one, two = (
        blocking.packed_blocking(tw.MatmulSpec(4096, 4096, 1024, epilogue=(each,)), ZEN_4)
        for each in (tw.bias(), tw.glu())
    )
    assert two.kc == one.kc
    assert 2 * two.nc == one.nc


def test_stores_of_large_tiles_take_time_where_they_take_two_passes():
    def sums(target, k: int, **given) -> int:
        found = blocking.unpacked_blocking(tw.MatmulSpec(256, 192, k, **given), target)
        return found.mr * found.nr // target.lanes(dtype("f32"))

    assert sums(ZEN_4, 32) <= 12 < 24 <= sums(ZEN_4, 512)
    assert sums(ZEN_5, 32) == sums(ZEN_5, 512) >= 24
    # 64 rows of 1024 columns share sets of L1, so that columns are read from L2 for each tile of rows.
    shared, apart = (blocking.unpacked_blocking(tw.MatmulSpec(1024, n, 64), ZEN_4) for n in (1024, 1072))
    assert shared.mr > apart.mr


def test_blocks_of_narrow_elements_are_as_deep_in_bytes():
    types = {"f32": {}, "bf16": {"a": "bf16"}, "bytes": {"a": "u8", "b": "i8"}}
    depths = {
        each: blocking.packed_blocking(tw.MatmulSpec(4096, 4096, 4096, **types[each]), ZEN_4).kc for each in types
    }
    assert depths == {"f32": 1024, "bf16": 2048, "bytes": 4096}


def predicted(target, element, m: int, n: int) -> float:
    """Products a cycle of the register tiles that the model chooses for strategy `unpacked`."""
    lanes = target.lanes(element)
    tile = register_tiles.register_tile(target, element, m, n, padded=False)
    return m * n / register_tiles.result_cycles(target, m, n, tile, lanes=lanes, padded=False)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_one_more_row_or_column_costs_less_than_15_percent(target, element):
    # With vectors of 16, the last one of 81 columns holds one of them: below 97 columns more than that is lost.
    target, element = get(target), dtype(element)
    for varied in ((lambda x: (x, x)), (lambda x: (256, x)), (lambda x: (x, 256))):
        rates = [predicted(target, element, *varied(x)) for x in range(97, 400)]
        assert all(0.85 < b / a < 1 / 0.85 for a, b in pairwise(rates))


def test_short_tiles_count_what_they_take():
    lanes = ZEN_4.lanes(dtype("f32"))
    cost = {p: register_tiles.result_cycles(ZEN_4, 8, 193, (8, 48), lanes=lanes, padded=p) for p in (False, True)}
    assert cost[True] == 5 * register_tiles.tile_cycles(ZEN_4, 8, 3)
    assert cost[False] == 4 * register_tiles.tile_cycles(ZEN_4, 8, 3) + register_tiles.tile_cycles(ZEN_4, 8, 1)


def test_code_does_not_grow_with_rows() -> None:
    few, many = (
        tw.compile(tw.MatmulSpec(rows, 32, 48), target="znver4", schedule="streamed", cache=False).asm["llvmir"]
        for rows in (56, 560)
    )
    assert len(many) < 1.1 * len(few)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((128, 3072, 768), (8, 48)),  # not 4 x 96, which wastes as little
        ((960, 960, 960), (8, 48)),  # nor 9 x 48, which leaves no registers
        ((64, 448, 1024), (6, 64)),
        ((480, 736, 16), (8, 48)),  # not 12 x 32: K is short
        ((938, 88, 129), (4, 96)),  # one strip
        ((512, 160, 400), (12, 32)),  # not 2 x 160
        ((40, 80, 40), (5, 80)),  # L1 holds B
    ],
    ids=str,
)
def test_register_tiles_where_a_core_waits_for_l2(shape, tile):
    found = choice(*shape, target=get("cascadelake")).parameters
    assert (found.mr, found.nr) == tile
