# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which elements of a tile of C each thread of the warp groups has that multiply."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.index import Index, add, div, div_rem, mul, value
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.fragments import Part
from tilewright.codegen.gpu.tma_stores import Chunk
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, nvvm
from tilewright.schedules.gpu.warpgroup import ROWS, WARP_GROUP, WARP_ROWS, WarpGroupTile

WARP = 32


def identify() -> tuple[ir.Value, ir.Value]:
    """Which warp among the consumers' a thread is of, and its lane there.

    The first lane tells its own number: the warp's is then known to be the same in all, and nothing that follows from either is
    computed before, where registers are needed for the products.
    """
    thread = gpu.thread_id(gpu.Dimension.x)
    every, first, bounds = (shared.i32(each) for each in (-1, 0, WARP - 1))
    kind = ir.Attribute.parse("#nvvm<shfl_kind idx>")
    told = nvvm.shfl_sync(ir.IntegerType.get_signless(32), every, shared.as_i32(thread), first, bounds, kind)
    start = arith.index_castui(ir.IndexType.get(), told)
    return value(div(arith.subi(start, value(WARP_GROUP)), WARP)), arith.subi(thread, start)


@dataclass(frozen=True, slots=True)
class WarpGroups:
    """What `Sharing` asks: a thread has what the instruction leaves it.

    Attributes:
        sizes: The strategy's.
    """

    sizes: WarpGroupTile

    @property
    def part(self) -> Part:
        """Of the first 64 rows of instructions all that a thread has."""
        return self.part_of(Chunk(0, tuple(range(self.sizes.across // 8))))

    def part_of(self, chunk: Chunk) -> Part:
        """Two rows of instructions, of every 8 columns two neighbors; or, swapped, the transpose."""
        rows = tuple(chunk.group * ROWS + each for each in (0, 8))
        if self.sizes.swapped:
            return Part(
                tuple(8 * eight + each for eight in chunk.eights for each in (0, 1)), tuple((each, 1) for each in rows)
            )
        return Part(rows, tuple((8 * eight, 2) for eight in chunk.eights))

    def warp_row(self, warp: Index) -> Index:
        """The first row of instructions of one of the consumers' warps, in its tile."""
        consumer, warp = div_rem(warp, 4)
        own = 0 if self.sizes.pingpong else mul(consumer, self.sizes.groups * ROWS)
        return add(own, mul(warp, WARP_ROWS))

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """The first row and column of a thread's part."""
        return self.origin_in(*div_rem(arith.subi(thread, value(WARP_GROUP)), WARP))

    def origin_in(self, warp: Index, lane: Index) -> tuple[Index, Index]:
        """The same by warp and lane: warps have 16 rows of instructions each; in a warp, groups of four threads have a row."""
        group, place = div_rem(lane, 4)
        down, across = add(self.warp_row(warp), group), mul(place, 2)
        return (across, down) if self.sizes.swapped else (down, across)
