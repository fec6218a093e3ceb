# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of cache blocks for tile registers, and what schedules and ``explain`` make of it."""

import json
import re
from dataclasses import replace

import pytest
import tilewright as tw
from tilewright.build import contexts
from tilewright.cli import main
from tilewright.emit import hotloop, stages
from tilewright.schedules import make
from tilewright.schedules.models import blocking, lone_panel, tile_blocks
from tilewright.schedules.models.sizes import Blocking
from tilewright.schedules.models.tile_blocks import Caches, Product

CACHES = Caches(48 << 10, 2 << 20)
TARGET = "sapphirerapids"


def spec_of(extent: int, dtype: str, **fields) -> tw.MatmulSpec:
    return tw.MatmulSpec.from_dtypes(extent, extent, extent, dtype, **fields)


@pytest.mark.parametrize(("distance", "share"), [(256 << 10, 0.93), (1 << 20, 0.65), (2 << 20, 0.28), (64 << 20, 0.28)])
def test_two_tiles_a_step_take_as_long_as_was_measured(distance, share):
    assert 64 / (2 * CACHES.arrival(distance)) == pytest.approx(share)


def test_tiles_from_l1_hide_behind_products_and_further_ones_never_come_faster():
    assert 4 * CACHES.arrival(48 << 10) <= 64
    arrivals = [CACHES.arrival(distance << 10) for distance in range(1, 4096)]
    assert arrivals == sorted(arrivals)


@pytest.mark.parametrize("dtype", ["bf16", "u8,i8,i32"])
@pytest.mark.parametrize("extent", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("target", [TARGET, "graniterapids"])
def test_l2_holds_a_slice_of_b_with_all_of_k_or_a_block_of_c_with_its_slices(target, extent, dtype):
    spec, of = spec_of(extent, dtype), tw.targets.get(target)
    sizes = make.make(spec, of).sizes
    row = sizes["kc"] * spec.a_type.bytes
    if sizes["kc"] >= extent:  # C is written once: a few rows of A meet a slice of B.
        assert (sizes["mc"] + sizes["nc"]) * row <= of.l2.bytes
    else:
        assert 4 * sizes["mc"] * sizes["nc"] + 2 * (sizes["mc"] + sizes["nc"]) * row <= of.l2.bytes
        # What memory delivers meanwhile: multiply-adds of bf16 in 16 cycles a tile at 28 GB/s.
        assert sizes["mc"] * sizes["nc"] / (sizes["mc"] + sizes["nc"]) > 114


def test_what_was_chosen_before_loads_sums_from_beyond_l2():
    product = Product(2048, 2048, 2048, 2, 32, a_fits=True)
    before = Blocking(32, 32, 704, 1024, 683)
    chosen = tile_blocks.choose(product, CACHES, (32, 32))
    assert tile_blocks.by_level(product, before, CACHES)["C"]["beyond"] > 0
    assert sum(each["beyond"] for each in tile_blocks.by_level(product, chosen, CACHES).values()) == 0
    assert tile_blocks.cycles(product, chosen, CACHES) < 0.9 * tile_blocks.cycles(product, before, CACHES)


@pytest.mark.parametrize(
    ("k", "mc", "a_fits", "expected"),
    [
        (256, 32, True, 0),
        (512, 32, True, 1),
        (512, 64, True, 2),
        (2048, 32, True, 1),
        (2048, 32, False, 3),
        (2048, 64, True, 3),
    ],
)
def test_whose_tiles_pass_l1_by(k, mc, a_fits, expected):
    product = Product(128, 256, k, 2, 32, a_fits=a_fits)
    assert tile_blocks.past_l1(product, Blocking(32, 32, mc, 256, k), CACHES) == expected


@pytest.mark.parametrize(("past", "loads"), [(0, 0), (1, 2), (2, 2), (3, 4)])
def test_a_schedule_says_whose_tiles_pass_l1_by(past, loads):
    spec, target = tw.MatmulSpec(64, 64, 256, a="bf16", c="f32"), tw.targets.get(TARGET)
    plan = make.make(spec, target, "packed", {"mr": 32, "nr": 32, "past_l1": past})
    text = stages.build(spec, target, plan, until="asm").texts["asm"]
    assert text.count("tileloadd") >= 4
    assert 4 * text.count("tileloaddt1") == loads * text.count("tileloadd")


def assembly(spec: tw.MatmulSpec, strategy: str, target: str = TARGET, **sizes: int) -> str:
    of = tw.targets.get(target)
    return stages.build(spec, of, make.make(spec, of, strategy, sizes), until="asm").texts["asm"]


def hot_loop(text: str) -> str:
    """The lines from the label before products of four tiles to the next one."""
    return next(each for each in text.split(".LBB") if each.count("tdpbf16ps") == 4)


def test_loops_of_tiles_multiply_vectors_too_so_that_stores_of_tiles_do_not_wait():
    spec = tw.MatmulSpec(64, 64, 1024, a="bf16", c="f32")
    tiles, vectors = (assembly(spec, "packed", target) for target in (TARGET, "znver4"))
    assert hot_loop(tiles).count("vpmuludq") == 1
    assert "vpmuludq" not in vectors


@pytest.mark.parametrize(("kc", "rows"), [(256, 8), (1024, 0)])
def test_many_rows_of_the_next_slice_are_prefetched_where_sums_go_on(kc, rows):
    spec = tw.MatmulSpec(128, 4096, 1024, a="bf16", c="f32")
    loop = hot_loop(assembly(spec, "packed", mr=32, nr=32, mc=128, nc=256, kc=kc))
    lines, steps = 256 * 2 // 64, kc // 32
    assert loop.count("prefetcht1") >= rows * lines // steps
    assert bool(rows) == ("prefetcht1" in loop)


@pytest.mark.parametrize("types", ["bf16", "u8,i8,i32"])
def test_sums_of_parts_are_no_panels(types):
    spec, of = tw.MatmulSpec.from_dtypes(12, 64, 256, types, layout="nt"), tw.targets.get(TARGET)
    plan = make.make(spec, of, "inner_product", {"parts": 2})
    text = stages.build(spec, of, plan, until="bufferized").texts["bufferized"]
    assert f"memref<2x12x64x{spec.acc_type.mlir}>" in text


def test_columns_of_b_are_packed_along_all_of_k_and_few_rows_in_shallow_slices():
    rows = Product(64, 2048, 2048, 2, 32, a_fits=True)
    assert tile_blocks.choose(rows, CACHES, (32, 32)).kc <= 256
    assert tile_blocks.choose(replace(rows, b_turned=True), CACHES, (32, 32)).kc == rows.k


def test_a_is_packed_where_its_rows_or_their_elements_are_no_whole_tiles():
    for m, n, k, expected in ((64, 64, 64, True), (72, 64, 64, False), (64, 64, 72, False)):
        spec = tw.MatmulSpec(m, n, k, a="bf16", c="f32")
        plan = make.make(spec, tw.targets.get(TARGET), "packed", {"mc": 32})
        assert plan.parameters is not None
        assert lone_panel.reads_a(spec, tw.targets.get(TARGET), plan.parameters) is expected


@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 64, 128), (1000, 24, 333), (1, 5000, 70), (33, 33, 65), (4096, 4096, 17)]
)
def test_no_other_block_that_was_tried_takes_less(m, n, k):
    product = Product(m, n, k, 2, 32)
    chosen = tile_blocks.choose(product, CACHES, (32, 32))
    assert (chosen.mc % 32, chosen.nc % 32, chosen.kc % 32) == (0, 0, 0)
    for size in ("mc", "nc", "kc"):
        for factor in (0.5, 2):
            other = replace(chosen, **{size: max(int(getattr(chosen, size) * factor) // 32, 1) * 32})
            if tile_blocks.holds(product, other, CACHES) and getattr(other, size) <= 1024:
                assert tile_blocks.cycles(product, chosen, CACHES) <= 1.1 * tile_blocks.cycles(product, other, CACHES)


@pytest.mark.parametrize("element", [1, 2, 4, 6])
@pytest.mark.parametrize("k", [33, 65, 70, 97, 129, 5000])
def test_slices_are_deeper_than_one_step(k, element):
    chosen = tile_blocks.choose(Product(37, 50, k, element, 32), CACHES, (16, 48))
    assert chosen.kc > 32


@pytest.mark.parametrize("m", [32, 300, 5000])
def test_a_packed_b_serves_products_of_every_m(m):
    of = tw.targets.get(TARGET)
    sizes = blocking.packed_blocking(tw.MatmulSpec(m, 768, 3072, a="bf16", b="bf16", c="f32", b_packed=True), of)
    usual = blocking.packed_blocking(tw.MatmulSpec(1024, 768, 3072, a="bf16", b="bf16", c="f32", b_packed=True), of)
    assert (sizes.nr, sizes.nc, sizes.kc) == (usual.nr, usual.nc, usual.kc)


def test_a_block_of_c_meets_all_of_k_before_the_next():
    spec, of = tw.MatmulSpec.from_dtypes(2048, 2048, 16384, "bf16"), tw.targets.get(TARGET)
    with contexts.new() as context:
        text = str(make.make(spec, of).module(spec, of, context))
    tiled = re.findall(r"(?:tile_using_for|structured\.fuse) %\S+ tile_sizes \[(.*?)\]", text)
    nonzero = [next(at for at, size in enumerate(each.split(", ")) if size != "0") for each in tiled]  # of m, n, k
    assert nonzero[:6] == [1, 0, 2, 1, 0, 2]  # jc, ic, pc, jr, ir and the steps over k


def test_explain_counts_tile_loads(tmp_path):
    shape = ["--shape", "512x512x512", "--dtype", "bf16", "--target", TARGET]
    assert main(["explain", *shape, "-o", str(tmp_path / "out")]) == 0
    facts = json.loads((tmp_path / "out" / "explain.json").read_text())
    counts = facts["moves"]["tile_loads"]
    steps, passes = 512**3 // (16 * 16 * 32), 512 // facts["parameters"]["kc"]
    assert sum(counts["A"].values()) == sum(counts["B"].values()) == steps // 2
    assert sum(counts["C"].values()) == (passes - 1) * (512 // 16) ** 2
    assert "Tiles that are loaded" in (tmp_path / "out" / "moves.txt").read_text()


@pytest.mark.parametrize(
    ("extents", "fields", "least"),
    [
        ((2048, 2048, 16384), {}, 4),  # slices of both operands
        ((1000, 1000, 1000), {}, 2),  # the next panel of B
        ((1024, 1024, 4096), {"b_packed": True}, 4),  # a slice of A, and the next panel of B
        ((256, 256, 256), {}, 0),  # L2 holds all
    ],
)
def test_the_next_slices_are_prefetched_between_tile_products(extents, fields, least):
    m, n, k = extents
    spec, of = tw.MatmulSpec.from_dtypes(m, n, k, "bf16", **fields), tw.targets.get(TARGET)
    text = stages.build(spec, of, make.make(spec, of), until="asm").texts["asm"]
    loop = hotloop.hottest(text, of.architecture)
    assert loop is not None
    prefetches = sum(each.mnemonic.startswith("prefetch") for each in loop.instructions)
    assert prefetches >= least
    assert (prefetches > 0) == (least > 0)
    assert loop.tile_products == 4
    assert loop.stack_accesses == 0
    assert len(loop.instructions) <= 32  # in the 64 cycles of the products


def test_what_follows_the_sums_of_a_tile_spills_none_of_them():
    text = assembly(tw.MatmulSpec(512, 512, 64, a="bf16", c="bf16"), "packed")
    behind = text.split("tilestored")[-1].split(".LBB")[0]
    assert behind.count("vcvtneps2bf16") == 2 * 32
    assert re.findall(r"%[xyz]mm\d+, -?\d*\(%rsp\)", behind) == []


def test_entries_of_a_batch_have_their_rows_of_a_read_where_they_lie():
    for batch, b_batch in (((3,), None), ((2, 3), ()), ((2, 3), (3,))):
        spec, of = tw.MatmulSpec(64, 64, 512, a="bf16", c="f32", batch=batch, b_batch=b_batch), tw.targets.get(TARGET)
        text = stages.build(spec, of, make.make(spec, of, "packed"), until="bufferized").texts["bufferized"]
        assert text.count("memref.view ") == 1  # of panels of B


@pytest.mark.parametrize("types", ["bf16", "u8,i8,i32"])
def test_panels_of_a_k_of_no_whole_steps_are_packed_together_too(types):
    of = tw.targets.get(TARGET)

    def interleaved(k: int) -> int:
        spec = tw.MatmulSpec.from_dtypes(64, 512, k, types)
        plan = make.make(spec, of, "packed", {"nc": 256, "kc": 1024})
        return stages.build(spec, of, plan, until="bufferized").texts["bufferized"].count("vector.interleave")

    assert all(interleaved(k) > interleaved(1024) for k in (1000, 1001, 1023))


def test_few_columns_meet_all_of_a_long_k_where_slices_would_be_packed_again_and_again():
    large = Product(4096, 4096, 4096, 2, 32, a_fits=True)
    assert tile_blocks.choose(large, CACHES, (32, 32)).kc == 4096
    assert tile_blocks.choose(replace(large, b_packed=True), CACHES, (32, 32)).kc < 4096


@pytest.mark.parametrize(("types", "most"), [("bf16", 6), ("u8,i8,i32", 12)])
def test_a_few_rows_by_columns_are_multiplied_along_k_and_more_in_tiles(types, most):
    of = tw.targets.get(TARGET)

    def strategy(rows: int) -> str:
        # Of other columns than whole tiles, the transpose cannot be computed.
        return make.make(tw.MatmulSpec.from_dtypes(rows, 1020, 1024, types, layout="nt"), of).name

    assert [strategy(rows) for rows in (most, most + 1, 64)] == ["inner_product", "packed", "packed"]
