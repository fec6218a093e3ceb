# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of some steps of a tile, which one block leaves in memory for the one that finishes the tile (`streamed_order`).

A warp's sums are for the same warp of the other block::

    leave:  memory[block][sums][thread] <- sums;  the warp's threads meet
            one thread: flag[block][warp] <- LAST, or MORE if an earlier block has left some of the tile too; released to the whole chip
    add:    from the block before on, back to one that says LAST:
                await flag[block][warp], acquired;  the warp's threads meet;  one: flag[block][warp] <- 0, for the next launch
                sums += memory[block][sums][thread]

Who has sums in tensor memory goes back to the first block once, and then adds those of all blocks from there, some sums at a time.

Flags are zeros before the first launch, and behind each: who leaves sums does so once, for one block. Sums of several blocks are added
in the order of these, so that results depend on nobody's pace.

Source: the PTX ISA manual, "Memory Consistency Model", causality order: what a warp's threads did before they met is released by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.index import Index, add, mul, value
from tilewright.build.loops import loop, when
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import elected, meet_warp
from tilewright.codegen.gpu.partial_sums import plus
from tilewright.codegen.gpu.streamed_order import StreamedOrder
from tilewright.codegen.gpu.tile_order import TileOrder
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, llvm, scf, vector
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import FLAG_BYTES, SUM_BYTES, WARP_GROUP, WarpGroupTile

_AT_ONCE = 4
"""Sums that a thread moves at once: 16 bytes."""
_SCOPE = "device"
_MORE, _LAST = 1, 2
"""What flags say: that an earlier block has left sums of the same tile, or none has."""
_DYNAMIC = -(1 << 31)
"""Stands for an index that is a value, in an op of the dialect of LLVM."""


class StreamedSums:
    """What the consumers of a block have to do with those of others. Code for their threads."""

    def __init__(
        self, sizes: WarpGroupTile | TensorMemoryTile, memory: ir.Value, order: TileOrder, steps: ir.Value
    ) -> None:
        """Makes it for consumers that share `memory`, a pointer, and tiles of so many steps in that order."""
        self._sizes, self._memory = sizes, memory
        self.order = StreamedOrder.of(order, steps)
        """The pieces of these tiles."""
        self._threads = sizes.consumers * WARP_GROUP

    def leave(self, sums: Sequence[Sequence[ir.Value]], has_first: ir.Value, warp: Index, lane: Index) -> None:
        """Writes sums to memory, and tells that they are there, and whether the tile's first step is among them."""
        for group, elements in enumerate(sums):
            self.put(elements, group * (self._sizes.across // 2), warp, lane)
        self.tell(has_first, warp)

    def put(self, sums: Sequence[ir.Value], first: Index, warp: Index, lane: Index) -> None:
        """Writes those of a thread's sums to memory that begin with number `first`."""
        own = self._own()
        for number in range(0, len(sums), _AT_ONCE):
            some = sums[number : number + _AT_ONCE]
            kind = ir.VectorType.get([_AT_ONCE], some[0].type)
            place = self._place(own, add(first, number), warp, lane)
            llvm.store(vector.from_elements(kind, some), place, alignment=16)

    def tell(self, has_first: ir.Value, warp: Index) -> None:
        """Tells that a warp's sums are in memory, and whether the tile's first step is among them."""
        meet_warp()
        with when(elected()):
            said = arith.select(has_first, shared.i32(_LAST), shared.i32(_MORE))
            self._tell(self._own(), warp, said, llvm.AtomicOrdering.release)

    def add(
        self, sums: Sequence[Sequence[ir.Value]], has_first: ir.Value, warp: Index, lane: Index
    ) -> list[list[ir.Value]]:
        """Sums with those added that blocks before have left of the tile: that of the cluster before, and so on."""
        flat = [element for group in sums for element in group]

        def added(at: Index, carried: Sequence[ir.Value]) -> list[ir.Value]:
            return self._added(carried, 0, at, warp, lane)

        _, *results = self._walk(has_first, warp, flat, added)
        per = len(sums[0])
        return [results[first : first + per] for first in range(0, len(results), per)]

    def await_others(self, has_first: ir.Value, warp: Index) -> ir.Value:
        """Waits until all sums of the tile that blocks before leave are there; returns the first of these blocks, or this one."""
        first, *_ = self._walk(has_first, warp, [], lambda at, carried: [])
        return first

    def add_from(
        self, block: ir.Value, sums: Sequence[ir.Value], first: Index, warp: Index, lane: Index
    ) -> list[ir.Value]:
        """Those of a thread's sums that begin with number `first`, with those added that blocks from `block` on have left."""
        own, clusters = gpu.block_id(gpu.Dimension.x), value(self._sizes.blocks)
        count = arith.divui(arith.subi(own, block), clusters)
        with loop(0, count, 1, list(sums)) as (number, carried, over):
            before = arith.subi(own, arith.muli(arith.addi(number, value(1)), clusters))
            scf.yield_(self._added(carried, first, mul(before, self._sizes.workspace), warp, lane))
        return list(over.results)

    def _walk(
        self,
        has_first: ir.Value,
        warp: Index,
        values: Sequence[ir.Value],
        step: Callable[[Index, Sequence[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """Goes back through the blocks that have left sums of the tile; returns the last one that it came to, and what steps carried.

        `step` takes where a block's sums are, when they are there, and what is carried.
        """
        start = [arith.select(has_first, shared.i32(_LAST), shared.i32(_MORE)), gpu.block_id(gpu.Dimension.x), *values]
        made = scf.WhileOp([each.type for each in start], start)
        for region in made.regions:
            ir.Block.create_at_start(region, [each.type for each in start], [made.location] * len(start))
        (before,), (after,) = (region.blocks for region in made.regions)
        with ir.InsertionPoint(before):
            said = before.arguments[0]
            scf.condition(arith.cmpi(arith.CmpIPredicate.eq, said, shared.i32(_MORE)), list(before.arguments))
        with ir.InsertionPoint(after):
            _, block, *carried = after.arguments
            block = arith.subi(block, value(self._sizes.blocks))
            at = mul(block, self._sizes.workspace)
            said = self._await(at, warp)
            meet_warp()
            with when(elected()):
                self._tell(at, warp, shared.i32(0), llvm.AtomicOrdering.monotonic)
            scf.yield_([said, block, *step(at, carried)])
        results: list[ir.Value] = list(made.results)
        return results[1:]

    def _added(self, sums: Sequence[ir.Value], first: Index, at: Index, warp: Index, lane: Index) -> list[ir.Value]:
        kind = ir.VectorType.get([_AT_ONCE], sums[0].type)
        results: list[ir.Value] = []
        for start in range(0, len(sums), _AT_ONCE):
            found = llvm.load(kind, self._place(at, add(first, start), warp, lane), alignment=16)
            for number in range(_AT_ONCE):
                results.append(plus(sums[start + number], vector.extract(found, [], [number])))
        return results

    def _own(self) -> Index:
        """Where in memory a block's own sums are."""
        return mul(gpu.block_id(gpu.Dimension.x), self._sizes.workspace)

    def _place(self, block: Index, number: Index, warp: Index, lane: Index) -> ir.Value:
        """Where some sums of a thread are, which begin with that number."""
        before = mul(number, self._threads * SUM_BYTES)
        thread = add(mul(warp, WARP_GROUP // 4), lane)
        return self._pointer(add(add(block, mul(thread, _AT_ONCE * SUM_BYTES)), before))

    def _flag(self, block: Index, warp: Index) -> ir.Value:
        return self._pointer(add(add(block, mul(warp, 4)), self._sizes.workspace - FLAG_BYTES))

    def _pointer(self, offset: Index) -> ir.Value:
        word = ir.IntegerType.get_signless(64)
        byte = ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        at = arith.index_cast(word, value(offset))
        return llvm.getelementptr(self._memory.type, self._memory, [at], [_DYNAMIC], byte, None)

    def _tell(self, block: Index, warp: Index, what: ir.Value, ordering: llvm.AtomicOrdering) -> None:
        llvm.store(what, self._flag(block, warp), alignment=4, ordering=ordering, syncscope=_SCOPE)

    def _await(self, block: Index, warp: Index) -> ir.Value:
        """Waits until a flag is set, and tells what it says."""
        word = ir.IntegerType.get_signless(32)
        made = scf.WhileOp([word], [])
        for region, kinds in zip(made.regions, ([], [word]), strict=True):
            ir.Block.create_at_start(region, kinds, [made.location] * len(kinds))
        (before,), (after,) = (region.blocks for region in made.regions)
        with ir.InsertionPoint(before):
            place, how = self._flag(block, warp), llvm.AtomicOrdering.acquire
            found = llvm.load(word, place, alignment=4, ordering=how, syncscope=_SCOPE)
            scf.condition(arith.cmpi(arith.CmpIPredicate.eq, found, shared.i32(0)), [found])
        with ir.InsertionPoint(after):
            scf.yield_([])
        return made.results[0]
