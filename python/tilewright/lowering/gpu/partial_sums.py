# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of parts of K, added up by the blocks of a cluster through their shared memory.

Upstream splits a reduction into another loop, whose sums go through global memory.

Every consumer writes its sums to the shared memory of its block, where tiles of A and B were: ``memory[sum][thread] <- sums``. When
all blocks of the cluster have, each adds up some sums of all blocks, always in the order of the blocks: the result does not depend on
who is first.
"""

from __future__ import annotations

from tilewright.lowering.gpu import shared
from tilewright.lowering.gpu.index import Index, add, multiply, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm
from tilewright.schedules.warpgroup import WARP_GROUP, WarpGroupTile

_BYTES = 4
"""Bytes of a sum."""
_BARRIER = 3
"""The named barrier at which all consumers of a block meet."""


class PartialSums:
    """What the consumers of a block have to do with those of others. Code for their threads."""

    def __init__(self, sizes: WarpGroupTile, memory: ir.Value, thread: ir.Value) -> None:
        """Makes it for consumers that may write to `memory`."""
        self._sizes, self._memory = sizes, memory
        self._threads = sizes.consumers * WARP_GROUP
        self._place = multiply(arith.subi(thread, value(WARP_GROUP)), _BYTES)

    def publish(self, sums: list[list[ir.Value]]) -> None:
        """Writes sums to shared memory, when nobody reads tiles from it any longer, and waits until all blocks have."""
        count = shared.i32(self._threads)
        nvvm.barrier(None, barrier_id=shared.i32(_BARRIER), number_of_threads=count)
        for group, elements in enumerate(sums):
            for number, element in enumerate(elements):
                llvm.store(element, shared.pointer(self._memory, self._offset(group, number)))
        nvvm.cluster_arrive()
        nvvm.cluster_wait()

    def sum(self, sums: list[list[ir.Value]], group: int, eights: range) -> None:
        """Replaces a thread's sums of some columns by those of all blocks."""
        pointer = ir.Type.parse("!llvm.ptr<7>")
        for number in range(eights.start * 4, eights.stop * 4):
            own = shared.pointer(self._memory, self._offset(group, number))
            kind = sums[group][number].type
            total = None
            for rank in range(self._sizes.split):
                part = llvm.load(kind, nvvm.mapa(pointer, own, shared.i32(rank)))
                total = part if total is None else _add(total, part)
            assert total is not None, "there is a block"
            sums[group][number] = total

    def _offset(self, group: int, number: int) -> Index:
        sums = self._sizes.across // 2
        return add(self._place, (group * sums + number) * self._threads * _BYTES)


def _add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addi(a, b) if isinstance(a.type, ir.IntegerType) else arith.addf(a, b)
