# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Situations in which asynchronous kernels go wrong, in Gluon, each with its right forms: ``python gluon_kernels.py FOLDER``.

Run by the Python that has Triton. Each form is FOLDER/NAME-FORM.ptx, with its launch and whether it is wrong in its .json. The
situations are those of tests of Triton's ConSan for Hopper, which needs a GPU; the kernels are written anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import triton  # pyright: ignore[reportMissingImports]
import triton.experimental.gluon.language as gl  # pyright: ignore[reportMissingImports]
from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
from triton.experimental import gluon  # pyright: ignore[reportMissingImports]
from triton.experimental.gluon._runtime import GluonASTSource  # pyright: ignore[reportMissingImports]
from triton.experimental.gluon.language.nvidia.hopper import (  # pyright: ignore[reportMissingImports]
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor  # pyright: ignore[reportMissingImports]

SIZE = gl.constexpr(64)
TILE = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
BOX = gl.constexpr(TILE)
BOX_BYTES = gl.constexpr(64 * 64 * 2)
ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))
LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
SUMS = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16]))


@gluon.jit
def _offsets():
    rows = gl.arange(0, SIZE, gl.SliceLayout(1, ROWS))
    columns = gl.arange(0, SIZE, gl.SliceLayout(0, ROWS))
    return rows[:, None] * SIZE + columns[None, :]


@gluon.jit
def _put(out, values):
    gl.store(out + _offsets(), values)


@gluon.jit
def _barriers(count: gl.constexpr, arrivals: gl.constexpr):
    found = mbarrier.allocate_mbarrier(batch=count)
    for number in gl.static_range(count):
        mbarrier.init(found.index(number), count=arrivals)
    return found


@gluon.jit
def _fetch(tensor, bar, tile):
    mbarrier.expect(bar, BOX_BYTES)
    tma.async_load(tensor, [0, 0], bar, tile)


# Copies of boxes.


@gluon.jit
def read_of_a_box(tensor, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(1, 1)
    _fetch(tensor, bars.index(0), tile)
    if FORM == "right":
        mbarrier.wait(bars.index(0), 0)
    values = tile.load(ROWS)
    mbarrier.wait(bars.index(0), 0)
    mbarrier.invalidate(bars.index(0))
    _put(out, values)


@gluon.jit
def two_boxes_of_one_barrier(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    bars = _barriers(1, 1)
    mbarrier.expect(bars.index(0), BOX_BYTES * (1 if FORM == "too_few_bytes" else 3 if FORM == "too_many_bytes" else 2))
    tma.async_load(tensor, [0, 0], bars.index(0), tiles.index(0))
    tma.async_load(tensor, [0, 0], bars.index(0), tiles.index(1))
    if FORM != "no_wait":
        mbarrier.wait(bars.index(0), 0)
    values = tiles.index(0).load(ROWS) + tiles.index(1).load(ROWS)
    mbarrier.wait(bars.index(0), 0)
    mbarrier.invalidate(bars.index(0))
    _put(out, values)


@gluon.jit
def two_boxes_of_two_barriers(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    bars = _barriers(2, 1)
    _fetch(tensor, bars.index(0), tiles.index(0))
    _fetch(tensor, bars.index(1), tiles.index(1))
    mbarrier.wait(bars.index(1), 0)
    values = tiles.index(0 if FORM == "other_box" else 1).load(ROWS)
    mbarrier.wait(bars.index(0), 0)
    _put(out, values)


@gluon.jit
def box_over_a_box(tensor, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(2, 1)
    _fetch(tensor, bars.index(0), tile)
    if FORM == "right":
        mbarrier.wait(bars.index(0), 0)
    _fetch(tensor, bars.index(1), tile)
    mbarrier.wait(bars.index(0), 0)
    mbarrier.wait(bars.index(1), 0)
    _put(out, tile.load(ROWS))


@gluon.jit
def box_over_what_is_read(tensor, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(2, 1)
    _fetch(tensor, bars.index(0), tile)
    mbarrier.wait(bars.index(0), 0)
    values = tile.load(ROWS)
    if FORM == "right":
        gl.barrier()
        _fetch(tensor, bars.index(1), tile)
        mbarrier.wait(bars.index(1), 0)
    else:
        _fetch(tensor, bars.index(1), tile)
        values += tile.load(ROWS)
        mbarrier.wait(bars.index(1), 0)
    _put(out, values)


@gluon.jit
def stored_box(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    tiles.index(0).store(gl.full([SIZE, SIZE], 1, gl.float16, ROWS))
    tiles.index(1).store(gl.full([SIZE, SIZE], 2, gl.float16, ROWS))
    if FORM != "fence_by_triton":
        fence_async_shared()
    tma.async_store(tensor, [0, 0], tiles.index(0))
    tma.async_store(tensor, [0, 64], tiles.index(1))
    tma.store_wait(pendings=1)
    tiles.index(0).store(gl.full([SIZE, SIZE], 3, gl.float16, ROWS))
    if FORM != "second_overwritten":
        tma.store_wait(pendings=0)
    tiles.index(1).store(gl.full([SIZE, SIZE], 4, gl.float16, ROWS))
    tma.store_wait(pendings=0)


@gluon.jit
def stored_box_read_again(tensor, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(1, 1)
    tile.store(gl.full([SIZE, SIZE], 1, gl.float16, ROWS))
    fence_async_shared()
    tma.async_store(tensor, [0, 0], tile)
    if FORM == "right":
        tma.store_wait(pendings=0, read_only=False)
    else:
        tma.store_wait(pendings=0)
    _fetch(tensor, bars.index(0), tile)
    mbarrier.wait(bars.index(0), 0)
    _put(out, tile.load(ROWS))
    tma.store_wait(pendings=0, read_only=False)


# Copies by threads.


@gluon.jit
def copies_by_threads(source, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    for number in gl.static_range(2):
        async_copy.async_load(tiles.index(number), source + _offsets())
        async_copy.commit_group()
    if FORM == "wait_for_too_few":
        async_copy.wait_group(2)
    elif FORM == "wait_for_the_first":
        async_copy.wait_group(1)
    else:
        async_copy.wait_group(0)
    values = tiles.index(0).load(ROWS)
    if FORM != "wait_for_the_first":
        values += tiles.index(1).load(ROWS)
    async_copy.wait_group(0)
    _put(out, values)


@gluon.jit
def copy_over_a_copy(source, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    async_copy.async_load(tile, source + _offsets())
    async_copy.commit_group()
    if FORM == "right":
        async_copy.wait_group(0)
        gl.barrier()
    tile.store(gl.full([SIZE, SIZE], 3, gl.float16, ROWS))
    async_copy.wait_group(0)
    gl.barrier()
    _put(out, tile.load(ROWS))


# Products.


@gluon.jit
def operand_of_a_product(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    for number in gl.static_range(2):
        tiles.index(number).store(gl.full([SIZE, SIZE], 1, gl.float16, ROWS))
    if FORM != "fence_by_triton":
        fence_async_shared()
    acc = gl.zeros([SIZE, SIZE], gl.float32, SUMS)
    acc = warpgroup_mma(tiles.index(0), tiles.index(1), acc, is_async=True)
    if FORM == "overwritten":
        tiles.index(0).store(gl.full([SIZE, SIZE], 2, gl.float16, ROWS))
    acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
    tiles.index(0).store(gl.full([SIZE, SIZE], 3, gl.float16, ROWS))
    _put(out, gl.convert_layout(acc, ROWS).to(gl.float16))


@gluon.jit
def operand_of_two_products(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [3, SIZE, SIZE], BOX)
    for number in gl.static_range(3):
        tiles.index(number).store(gl.full([SIZE, SIZE], 1, gl.float16, ROWS))
    fence_async_shared()
    acc = gl.zeros([SIZE, SIZE], gl.float32, SUMS)
    acc = warpgroup_mma(tiles.index(0), tiles.index(1), acc, is_async=True)
    acc = warpgroup_mma(tiles.index(2), tiles.index(1), acc, is_async=True)
    acc = warpgroup_mma_wait(num_outstanding=1, deps=[acc])
    if FORM == "second_overwritten":
        tiles.index(2).store(gl.full([SIZE, SIZE], 2, gl.float16, ROWS))
    else:
        tiles.index(0).store(gl.full([SIZE, SIZE], 2, gl.float16, ROWS))
    acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
    _put(out, gl.convert_layout(acc, ROWS).to(gl.float16))


@gluon.jit
def products_in_a_ring(tensor, out, FORM: gl.constexpr):
    """A ring of tiles, of which the next one is fetched while one is multiplied: two are one too few."""
    ring: gl.constexpr = 2 if FORM == "two_tiles" else 3
    tiles = gl.allocate_shared_memory(gl.float16, [ring, SIZE, SIZE], BOX)
    bars = _barriers(ring, 1)
    acc = gl.zeros([SIZE, SIZE], gl.float32, SUMS)
    _fetch(tensor, bars.index(0), tiles.index(0))
    for step in range(6):
        after = (step + 1) % ring
        if step < 5:
            _fetch(tensor, bars.index(after), tiles.index(after))
        mbarrier.wait(bars.index(step % ring), step // ring % 2)
        acc = warpgroup_mma(tiles.index(step % ring), tiles.index(step % ring), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=[acc])
    acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
    _put(out, gl.convert_layout(acc, ROWS).to(gl.float16))


# Specialized warps.


@gluon.jit
def _line(out, values):
    gl.store(out + gl.arange(0, 128, LINE), values)


@gluon.jit
def _writes(lines, bars, FORM: gl.constexpr):
    lines.index(0).store(gl.arange(0, 128, LINE).to(gl.float16))
    if FORM != "no_arrival":
        mbarrier.arrive(bars.index(0), count=1)


@gluon.jit
def _reads(lines, bars, FORM: gl.constexpr):
    if FORM != "no_wait":
        mbarrier.wait(bars.index(0), 1 if FORM == "wrong_phase" else 0)
    lines.index(1).store(lines.index(0).load(LINE))
    mbarrier.arrive(bars.index(1), count=1)


@gluon.jit
def written_by_others(tensor, out, FORM: gl.constexpr):
    lines = gl.allocate_shared_memory(gl.float16, [2, 128], FLAT)
    bars = _barriers(2, 2 if FORM == "too_many_expected" else 1)
    gl.warp_specialize([(_reads, (lines, bars, FORM)), (_writes, (lines, bars, FORM))], [4], [32])
    mbarrier.wait(bars.index(1), 0)
    _line(out, lines.index(1).load(LINE))


@gluon.jit
def _first(lines, bars, FORM: gl.constexpr):
    lines.index(1).store(lines.index(0).load(LINE))
    mbarrier.arrive(bars.index(0), count=1)


@gluon.jit
def _second(lines, bars, FORM: gl.constexpr):
    lines.index(2).store(lines.index(0).load(LINE))
    mbarrier.arrive(bars.index(1), count=1)


@gluon.jit
def _third(lines, bars, FORM: gl.constexpr):
    if FORM != "first_not_waited_for":
        mbarrier.wait(bars.index(0), 0)
    if FORM != "second_not_waited_for":
        mbarrier.wait(bars.index(1), 0)
    lines.index(0).store((gl.arange(0, 128, LINE) + 5).to(gl.float16))
    mbarrier.arrive(bars.index(2), count=1)


@gluon.jit
def read_by_two_others(tensor, out, FORM: gl.constexpr):
    lines = gl.allocate_shared_memory(gl.float16, [3, 128], FLAT)
    lines.index(0).store(gl.arange(0, 128, LINE).to(gl.float16))
    bars = _barriers(3, 1)
    gl.warp_specialize(
        [(_first, (lines, bars, FORM)), (_second, (lines, bars, FORM)), (_third, (lines, bars, FORM))], [4, 4], [32, 32]
    )
    mbarrier.wait(bars.index(2), 0)
    _line(out, lines.index(0).load(LINE) + lines.index(1).load(LINE) + lines.index(2).load(LINE))


@gluon.jit
def _one(lines, bars, place: gl.constexpr):
    lines.index(place).store(lines.index(0).load(LINE))
    mbarrier.arrive(bars.index(0), count=1)


@gluon.jit
def _last(lines, bars, FORM: gl.constexpr):
    if FORM != "no_wait":
        mbarrier.wait(bars.index(0), 0)
    lines.index(0).store((gl.arange(0, 128, LINE) + 5).to(gl.float16))
    mbarrier.arrive(bars.index(1), count=1)


@gluon.jit
def two_arrivals_at_one_barrier(tensor, out, FORM: gl.constexpr):
    lines = gl.allocate_shared_memory(gl.float16, [3, 128], FLAT)
    lines.index(0).store(gl.arange(0, 128, LINE).to(gl.float16))
    bars = mbarrier.allocate_mbarrier(batch=2)
    mbarrier.init(bars.index(0), count=1 if FORM == "one_expected" else 2)
    mbarrier.init(bars.index(1), count=1)
    gl.warp_specialize(
        [(_one, (lines, bars, 1)), (_one, (lines, bars, 2)), (_last, (lines, bars, FORM))], [4, 4], [32, 32]
    )
    mbarrier.wait(bars.index(1), 0)
    _line(out, lines.index(0).load(LINE) + lines.index(1).load(LINE) + lines.index(2).load(LINE))


@gluon.jit
def _producer(lines, bars, FORM: gl.constexpr):
    for step in range(6):
        if FORM != "empty_not_waited_for":
            mbarrier.wait(bars.index(2 + step % 2), (step // 2 + 1) % 2)
        lines.index(step % 2).store((gl.arange(0, 128, LINE) + step).to(gl.float16))
        mbarrier.arrive(bars.index(step % 2), count=1)


@gluon.jit
def _consumer(lines, bars, out, FORM: gl.constexpr):
    acc = gl.zeros([128], gl.float16, LINE)
    for step in range(6):
        if FORM != "full_not_waited_for":
            mbarrier.wait(bars.index(step % 2), step // 2 % 2)
        if FORM == "arrival_before_the_read":
            mbarrier.arrive(bars.index(2 + step % 2), count=1)
            acc += lines.index(step % 2).load(LINE)
        else:
            acc += lines.index(step % 2).load(LINE)
            mbarrier.arrive(bars.index(2 + step % 2), count=1)
    _line(out, acc)


@gluon.jit
def ring_of_two(tensor, out, FORM: gl.constexpr):
    lines = gl.allocate_shared_memory(gl.float16, [2, 128], FLAT)
    bars = _barriers(4, 1)
    gl.warp_specialize([(_consumer, (lines, bars, out, FORM)), (_producer, (lines, bars, FORM))], [4], [32])


@gluon.jit
def _filler(tile, bars, FORM: gl.constexpr):
    tile.store(gl.full([SIZE, SIZE], 7, gl.float16, ROWS))
    if FORM == "by_the_writer":
        fence_async_shared()
    mbarrier.arrive(bars.index(0), count=1)
    if FORM == "behind_the_arrival":
        fence_async_shared()


@gluon.jit
def _storer(tensor, tile, bars, FORM: gl.constexpr):
    mbarrier.wait(bars.index(0), 0)
    if FORM == "by_the_reader":
        fence_async_shared()
    tma.async_store(tensor, [0, 0], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def fence_across_warps(tensor, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(1, 1)
    gl.warp_specialize([(_filler, (tile, bars, FORM)), (_storer, (tensor, tile, bars, FORM))], [4], [32])


@gluon.jit
def _loader(tensor, tiles, bars, FORM: gl.constexpr):
    for step in range(4):
        mbarrier.wait(bars.index(2 + step % 2), (step // 2 + 1) % 2)
        _fetch(tensor, bars.index(step % 2), tiles.index(step % 2))


@gluon.jit
def _multiplier(tiles, bars, out, FORM: gl.constexpr):
    acc = gl.zeros([SIZE, SIZE], gl.float32, SUMS)
    for step in range(4):
        mbarrier.wait(bars.index(step % 2), step // 2 % 2)
        acc = warpgroup_mma(tiles.index(step % 2), tiles.index(step % 2), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0 if FORM == "right" else 1, deps=[acc])
        mbarrier.arrive(bars.index(2 + step % 2), count=1)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
    _put(out, gl.convert_layout(acc, ROWS).to(gl.float16))


@gluon.jit
def released_before_its_product(tensor, out, FORM: gl.constexpr):
    tiles = gl.allocate_shared_memory(gl.float16, [2, SIZE, SIZE], BOX)
    bars = _barriers(4, 1)
    gl.warp_specialize([(_multiplier, (tiles, bars, out, FORM)), (_loader, (tensor, tiles, bars, FORM))], [4], [32])


@gluon.jit
def _copier(source, tile, bars, FORM: gl.constexpr):
    async_copy.async_load(tile, source + _offsets())
    if FORM == "arrival_of_copies":
        async_copy.mbarrier_arrive(bars.index(0), increment_count=False)
    else:
        async_copy.commit_group()
        if FORM == "arrival_behind_the_wait":
            async_copy.wait_group(0)
        mbarrier.arrive(bars.index(0), count=1)
        async_copy.wait_group(0)


@gluon.jit
def _user(tile, bars, out, FORM: gl.constexpr):
    mbarrier.wait(bars.index(0), 0)
    _put(out, tile.load(ROWS))


@gluon.jit
def copied_by_others(source, out, FORM: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [SIZE, SIZE], BOX)
    bars = _barriers(1, 128 if FORM == "arrival_of_copies" else 1)
    gl.warp_specialize([(_user, (tile, bars, out, FORM)), (_copier, (source, tile, bars, FORM))], [4], [32])


# Parts of the same memory.


@gluon.jit
def _left(line, out, FORM: gl.constexpr):
    part = line.slice(0, 128)
    part.store(gl.arange(0, 128, LINE).to(gl.float16))
    _line(out, part.load(LINE))


@gluon.jit
def _right(line, out, FORM: gl.constexpr):
    part = line.slice(0 if FORM == "overlapping" else 128, 128)
    part.store((gl.arange(0, 128, LINE) + 200).to(gl.float16))
    _line(out + 128, part.load(LINE))


@gluon.jit
def parts_of_a_line(tensor, out, FORM: gl.constexpr):
    line = gl.allocate_shared_memory(gl.float16, [256], FLAT)
    gl.warp_specialize([(_left, (line, out, FORM)), (_right, (line, out, FORM))], [4], [32])


# Barrier objects.


@gluon.jit
def life_of_a_barrier(tensor, out, FORM: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    if FORM != "never_initialized":
        mbarrier.init(bar, count=1)
    if FORM == "initialized_twice":
        mbarrier.init(bar, count=1)
    if FORM == "invalidated_too_early":
        mbarrier.invalidate(bar)
    mbarrier.arrive(bar, count=2 if FORM == "too_many_arrivals" else 1)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    if FORM == "used_again":
        mbarrier.arrive(bar, count=1)
    if FORM == "initialized_again":
        gl.barrier()
        mbarrier.init(bar, count=1)
        mbarrier.arrive(bar, count=1)
        mbarrier.wait(bar, 0)


@gluon.jit
def _waits_first(bars, FORM: gl.constexpr):
    mbarrier.wait(bars.index(0), 0)
    mbarrier.arrive(bars.index(1), count=1)


@gluon.jit
def _waits_too(bars, FORM: gl.constexpr):
    if FORM == "each_waits_for_the_other":
        mbarrier.wait(bars.index(1), 0)
    mbarrier.arrive(bars.index(0), count=1)
    if FORM == "right":
        mbarrier.wait(bars.index(1), 0)


@gluon.jit
def waits_in_a_circle(tensor, out, FORM: gl.constexpr):
    bars = _barriers(2, 1)
    gl.warp_specialize([(_waits_first, (bars, FORM)), (_waits_too, (bars, FORM))], [4], [32])


SITUATIONS: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = [
    (read_of_a_box, ("right",), ("no_wait",)),
    (two_boxes_of_one_barrier, ("right",), ("no_wait", "too_few_bytes", "too_many_bytes")),
    (two_boxes_of_two_barriers, ("right",), ("other_box",)),
    (box_over_a_box, ("right",), ("no_wait",)),
    (box_over_what_is_read, ("right",), ("no_wait",)),
    (stored_box, ("right", "fence_by_triton"), ("second_overwritten",)),
    (stored_box_read_again, ("right",), ("read_only",)),
    (copies_by_threads, ("right", "wait_for_the_first"), ("wait_for_too_few",)),
    (copy_over_a_copy, ("right",), ("no_wait",)),
    (operand_of_a_product, ("right", "fence_by_triton"), ("overwritten",)),
    (operand_of_two_products, ("right",), ("second_overwritten",)),
    (products_in_a_ring, ("right",), ("two_tiles",)),
    (written_by_others, ("right",), ("no_wait", "no_arrival", "wrong_phase", "too_many_expected")),
    (read_by_two_others, ("right",), ("first_not_waited_for", "second_not_waited_for")),
    (two_arrivals_at_one_barrier, ("right",), ("no_wait", "one_expected")),
    (ring_of_two, ("right",), ("empty_not_waited_for", "full_not_waited_for", "arrival_before_the_read")),
    (fence_across_warps, ("by_the_writer", "by_the_reader"), ("none", "behind_the_arrival")),
    (released_before_its_product, ("right",), ("one_under_way",)),
    (copied_by_others, ("arrival_of_copies", "arrival_behind_the_wait"), ("arrival_before_the_wait",)),
    (parts_of_a_line, ("right",), ("overlapping",)),
    (life_of_a_barrier, ("right", "initialized_again"),
     ("never_initialized", "initialized_twice", "invalidated_too_early", "too_many_arrivals", "used_again")),
    (waits_in_a_circle, ("right",), ("each_waits_for_the_other",)),
]  # fmt: skip
"""A kernel, its right forms and its wrong ones."""
BY_POINTER = ("copies_by_threads", "copy_over_a_copy", "copied_by_others")  # Of others, a tensor map comes first.


class _Tensor:
    """What a descriptor asks of its tensor."""

    dtype = "fp16"

    def data_ptr(self) -> int:
        return 0


def main(folder: Path) -> None:
    """Compiles all."""
    map_ = TensorDescriptor(_Tensor(), [64, 128], [128, 1], [64, 64], TILE).__mangle__()
    for function, right, wrong in SITUATIONS:
        name = function.fn.__name__
        for form in (*right, *wrong):
            first = "source" if name in BY_POINTER else "tensor"
            given = {first: "*fp16" if name in BY_POINTER else map_, "out": "*fp16", "FORM": "constexpr"}
            marks = {(number,): [["tt.divisibility", 16]] for number in ((0, 1) if name in BY_POINTER else (1,))}
            source = GluonASTSource(function, given, constexprs={"FORM": form}, attrs=marks)
            made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
            (folder / f"{name}-{form}.ptx").write_text(made.asm["ptx"])
            about = {
                "kernel": name,
                "shared": made.metadata.shared,
                "wrong": form in wrong,
                "pointer": name in BY_POINTER,
            }
            (folder / f"{name}-{form}.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
