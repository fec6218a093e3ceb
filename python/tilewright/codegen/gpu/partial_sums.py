# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of parts of K, added up by the blocks of a cluster through their shared memory.

Upstream splits a reduction into another loop, whose sums go through global memory.

Every consumer writes its sums to the shared memory of its block, where tiles of A and B were: ``memory[sum][thread] <- sums``. When
all blocks of the cluster have, each adds up some sums of all blocks, always in the order of the blocks: the result does not depend on
who is first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.build.index import Index, add, mul
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import meet_cluster, meet_consumers
from tilewright.codegen.gpu.tma_stores import Chunk, fence_copies
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import SUM_BYTES, WARP_GROUP, WarpGroupTile


class PartialSums:
    """What the consumers of a block have to do with those of others. Code for their threads."""

    def __init__(self, sizes: WarpGroupTile | TensorMemoryTile, memory: ir.Value) -> None:
        """Makes it for consumers that may write to `memory`."""
        self._sizes, self._memory = sizes, memory
        self._threads = sizes.consumers * WARP_GROUP

    def publish(self, sums: list[list[ir.Value]], warp: Index, lane: Index) -> None:
        """Writes sums to shared memory, when nobody reads tiles from it any longer, and waits until all blocks have."""
        meet_consumers(self._sizes.consumers)
        for group, elements in enumerate(sums):
            self.put(elements, group * (self._sizes.across // 2), warp, lane)
        meet_cluster()

    def put(self, sums: Sequence[ir.Value], first: Index, warp: Index, lane: Index) -> None:
        """Writes those of a thread's sums to shared memory that begin with number `first`."""
        place = self._place(first, warp, lane)
        for number, element in enumerate(sums):
            llvm.store(element, shared.pointer(self._memory, add(place, self._offset(number))))

    def sum(self, sums: list[list[ir.Value]], chunk: Chunk, warp: Index, lane: Index) -> None:
        """Replaces some of a thread's sums by those of all blocks."""
        own = sums[chunk.group]
        numbers = [4 * eight + each for eight in chunk.eights for each in range(4)]
        before = chunk.group * (self._sizes.across // 2)
        made = self.sum_from(0, [before + number for number in numbers], own[0].type, warp, lane)
        for number, sum_ in zip(numbers, made, strict=True):
            own[number] = sum_

    def sum_from(self, first: Index, numbers: Sequence[int], kind: ir.Type, warp: Index, lane: Index) -> list[ir.Value]:
        """The sums of all blocks of some of a thread's, by their numbers behind number `first`."""
        pointer, byte = ir.Type.parse("!llvm.ptr<7>"), ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        own = shared.pointer(self._memory, self._place(first, warp, lane))
        blocks = [nvvm.mapa(pointer, own, shared.i32(rank)) for rank in range(self._sizes.split)]
        sums = []
        for number in numbers:
            places = [llvm.getelementptr(pointer, block, [], [self._offset(number)], byte, None) for block in blocks]
            sums.append(reduce(plus, [llvm.load(kind, place) for place in places]))
        return sums

    def finish(self) -> None:
        """Waits until all blocks have read what they need: tiles are copied again to where the sums are."""
        fence_copies()
        meet_cluster()

    def _place(self, first: Index, warp: Index, lane: Index) -> Index:
        """Where a thread's sums begin, from number `first` on."""
        thread = add(mul(warp, WARP_GROUP // 4), lane)
        return add(mul(thread, SUM_BYTES), mul(first, self._offset(1)))

    def _offset(self, number: int) -> int:
        return number * self._threads * SUM_BYTES


def plus(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two sums."""
    return arith.addi(a, b) if isinstance(a.type, ir.IntegerType) else arith.addf(a, b)
