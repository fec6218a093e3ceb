# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of parts of K, added up by the blocks of a cluster through their shared memory.

Upstream splits a reduction into another loop, whose sums go through global memory.

Every consumer writes its sums to the shared memory of its block, where tiles of A and B were: ``memory[sum][thread] <- sums``. When
all blocks of the cluster have, each adds up some sums of all blocks, always in the order of the blocks: the result does not depend on
who is first.
"""

from __future__ import annotations

from functools import reduce

from tilewright.build.index import Index, add, mul
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import meet_cluster, meet_consumers
from tilewright.codegen.gpu.tma_stores import Chunk, fence_copies
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm
from tilewright.schedules.gpu.warpgroup import SUM_BYTES, WARP_GROUP, WarpGroupTile


class PartialSums:
    """What the consumers of a block have to do with those of others. Code for their threads."""

    def __init__(self, sizes: WarpGroupTile, memory: ir.Value) -> None:
        """Makes it for consumers that may write to `memory`."""
        self._sizes, self._memory = sizes, memory
        self._threads = sizes.consumers * WARP_GROUP

    def publish(self, sums: list[list[ir.Value]], warp: Index, lane: Index) -> None:
        """Writes sums to shared memory, when nobody reads tiles from it any longer, and waits until all blocks have."""
        place = self._place(warp, lane)
        meet_consumers(self._sizes.consumers)
        for group, elements in enumerate(sums):
            for number, element in enumerate(elements):
                llvm.store(element, shared.pointer(self._memory, add(place, self._offset(group, number))))
        meet_cluster()

    def sum(self, sums: list[list[ir.Value]], chunk: Chunk, warp: Index, lane: Index) -> None:
        """Replaces some of a thread's sums by those of all blocks."""
        pointer, byte = ir.Type.parse("!llvm.ptr<7>"), ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        own = shared.pointer(self._memory, self._place(warp, lane))
        blocks = [nvvm.mapa(pointer, own, shared.i32(rank)) for rank in range(self._sizes.split)]
        for number in (4 * eight + each for eight in chunk.eights for each in range(4)):
            offset = self._offset(chunk.group, number)
            kind = sums[chunk.group][number].type
            places = [llvm.getelementptr(pointer, block, [], [offset], byte, None) for block in blocks]
            sums[chunk.group][number] = reduce(plus, [llvm.load(kind, place) for place in places])

    def finish(self) -> None:
        """Waits until all blocks have read what they need: tiles are copied again to where the sums are."""
        fence_copies()
        meet_cluster()

    def _place(self, warp: Index, lane: Index) -> Index:
        return mul(add(mul(warp, WARP_GROUP // 4), lane), SUM_BYTES)

    def _offset(self, group: int, number: int) -> int:
        sums = self._sizes.across // 2
        return (group * sums + number) * self._threads * SUM_BYTES


def plus(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two sums."""
    return arith.addi(a, b) if isinstance(a.type, ir.IntegerType) else arith.addf(a, b)
