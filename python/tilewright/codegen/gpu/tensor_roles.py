# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares tiles of C between a thread that copies boxes of A and B, one that multiplies them, and warps that finish the sums (Blackwell).

Upstream has the instructions, and no op that divides a loop between those who copy, who multiply and who finish.

Before::

    forall (i, j) in tiles:
        for k: sums = contract(read A under a mask, read B under a mask, sums)
        write C <- f(sums)

After, of blocks that go on as long as there are tiles (`tile_order`), with slots for tiles of A and B, and others, in tensor memory, for
tiles of sums (`ring`)::

    if first warp:                                       # one thread of it copies, as warp groups have it (`warpgroups`)
        for (i, j) in my tiles:
            for k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot
    else if second warp:
        allocate tensor memory
        one thread:
            for (i, j) in my tiles:
                await finished[buffer]
                for k:
                    await full[slot]
                    sums[buffer] (+)= tile_a[slot] * tile_b[slot], asynchronously
                    have empty[slot] told when that is complete
                have summed[buffer] told when all is complete
    else if one of the last four warps:
        for (i, j) in my tiles:
            await summed[buffer]
            for some columns: load sums[buffer], a warp a quarter of the lanes;  write C <- f(sums), by boxes (`box_stores`)
            tell finished[buffer]
    meet;  the second warp gives tensor memory back

Two blocks of a cluster whose tiles lie below one another have one half each of the tile of B copied to both; a slot is then empty
when the products of both have read it.

Source: the PTX ISA manual, "TensorCore 5th Generation Family Instructions": "tcgen05 Memory Consistency Model Canonical Synchronization
Patterns".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tilewright.build.index import Index, add, div, div_rem, less, mul, value
from tilewright.build.loops import if_else, loop, when
from tilewright.codegen.gpu.barriers import elected, meet_cluster, meet_warp
from tilewright.codegen.gpu.ring import Ring, Turn
from tilewright.codegen.gpu.tensor_products import TensorProducts
from tilewright.codegen.gpu.tensor_sums import TensorMemory, await_loads, fence_after, fence_before
from tilewright.codegen.gpu.tma_stores import Chunk
from tilewright.codegen.gpu.warp_group_fragments import WARP, WarpGroups
from tilewright.codegen.gpu.warpgroups import Specialized
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, nvvm, scf
from tilewright.schedules.gpu.tensor_memory import LANES, TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import WARP_GROUP, WARP_ROWS

_EIGHTS = 4
"""Groups of 8 columns that are loaded at once at most, where threads store what they have."""
_QUARTER = LANES // 4
"""Lanes of tensor memory that a warp reads."""


@dataclass(frozen=True, slots=True)
class Quarters(WarpGroups):
    """What `Sharing` asks: a thread has what it loads from its warp's quarter of the lanes."""

    sizes: TensorMemoryTile  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, with all names that are read there

    @staticmethod
    def group_row(group: Index) -> Index:
        """How far below its warp's first row a group of 16 rows is: a warp has two of every 128 rows."""
        rows, half = div_rem(group, 2)
        return add(mul(rows, LANES), mul(half, WARP_ROWS))

    def warp_row(self, warp: Index) -> Index:
        """The first row of instructions of one of the four warps."""
        return mul(warp, _QUARTER)


class TensorRoles(Specialized):
    """One loop over tiles on its way to threads that copy, multiply and finish."""

    _ACROSS = frozenset({8, 16, 32})
    _groups: Quarters
    _sizes: TensorMemoryTile

    def _prepare(self, over_k: ir.Operation) -> None:
        """Tiles, barriers, tensor memory, and the maps of the tensors, which are new parameters of the kernel."""
        sizes = self._sizes
        self._shift: tuple[Index, Index] = 0, 0
        self._place_tiles(over_k)
        self._ring = Ring(sizes.stages, 1, sizes.cluster)
        self._buffers = Ring(sizes.buffers, WARP_GROUP // WARP)
        self._tensor = TensorMemory(sizes.buffers * sizes.columns)
        self._element = ir.VectorType(over_k.results[0].type).element_type
        self._products = TensorProducts(
            sizes, self._tiles, self._places, self._memory, self._types, self._element, self._tensor
        )
        with when(self._is_second_warp()):
            self._tensor.allocate()
        # Where tensor memory was allocated is known then, too.
        self._initialize(self._ring, self._buffers, meet=meet_cluster)
        self._tensor.find()

    def _is_second_warp(self) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, value(div(self._thread, WARP)), value(1))

    def _specialize(self, before: list[ir.Operation], over_k: ir.Operation, after: list[ir.Operation]) -> None:
        """What each warp does."""
        with when(less(self._thread, WARP)):
            self._produce(before, over_k)
        with when(self._is_second_warp()), when(elected()):
            self._multiply(before, over_k)
        with when(arith.cmpi(arith.CmpIPredicate.uge, self._thread, value(WARP_GROUP))):
            self._consume(before, over_k, after)
            fence_before()
        gpu.barrier()
        with when(self._is_second_warp()):
            self._tensor.free()

    def _steps(self, over_k: ir.Operation, number: ir.Value) -> tuple[Index, ir.Value, ir.Value]:
        """One step at least, which multiplies zeros: no thread writes to tensor memory.

        Where K is 0 it begins outside of A and B: what is there is zeros.
        """
        lower, upper, steps = super()._steps(over_k, number)
        empty = arith.cmpi(arith.CmpIPredicate.eq, upper, value(0))
        first = arith.select(empty, value(self._sizes.bk), value(lower))
        return first, arith.maxui(upper, value(add(first, 1))), arith.maxui(steps, value(1))

    def _multiply(self, before: list[ir.Operation], over_k: ir.Operation) -> None:
        """What the thread does that multiplies."""
        order, first, buffers = self._order, self._ring.first(), self._buffers.first()
        carried = [*first.values, *buffers.values]
        with loop(order.first(), order.count(), order.step(), carried) as (tile, (slot, parity, *buffer), _):
            buffers = Turn(*buffer)
            self._enter(before, order.place(tile))
            lower, upper, _ = self._steps(over_k, tile)
            self._buffers.await_empty(buffers)
            with loop(lower, upper, self._sizes.bk, [slot, parity]) as (k, carried, inner):
                turn = Turn(*carried)
                self._ring.await_full(turn)
                fence_after()
                adds = arith.cmpi(arith.CmpIPredicate.ugt, k, value(lower))
                self._products.begin(turn.slot, buffers.slot, adds)
                self._release(turn.slot)
                scf.yield_(self._ring.after(turn).values)
            nvvm.tcgen05_commit(self._buffers.full(buffers.slot))
            scf.yield_([*inner.results, *self._buffers.after(buffers).values])

    def _release(self, slot: ir.Value) -> None:
        """Has those who fill a slot told, in each block of the cluster, when all products that have been begun are complete."""
        mask = None
        if self._sizes.cluster > 1:
            mask = arith.constant(ir.IntegerType.get_signless(16), (1 << self._sizes.cluster) - 1)
        nvvm.tcgen05_commit(self._ring.empty(slot), multicast_mask=mask)

    def _consume(self, before: list[ir.Operation], over_k: ir.Operation, after: list[ir.Operation]) -> None:
        """What the warps do that finish sums."""
        self._identify()
        with self._over_tiles(self._order.first(), self._order.step(), self._buffers.first()) as (tile, carried, _):
            turn = Turn(*carried)
            self._enter(before, self._order.place(tile))
            self._buffers.await_full(turn)
            fence_after()
            self._buffer = turn.slot
            self._finish_tile(over_k, after)
            scf.yield_(self._buffers.after(turn).values)
        if self._stores:
            self._stores.finish()

    def _finish_tile(self, over_k: ir.Operation, ops: list[ir.Operation]) -> None:
        """Finishes the sums of a tile, if it is one: the last row of clusters may have more blocks than there are rows of tiles."""
        if self._sizes.cluster == 1:
            self._load_and_finish(over_k, ops)
            return
        if_else(
            less(self._at[0], self._order.rows),
            lambda: self._load_and_finish(over_k, ops),
            lambda: self._buffers.release(self._buffer, self._lane),
        )

    def _load_and_finish(self, over_k: ir.Operation, ops: list[ir.Operation]) -> None:
        """Finishes all sums of a tile, box by box: in a loop, because tensor memory, unlike registers, has addresses."""
        eighths = self._sizes.across // 8
        per = self._stores.eights if self._stores else gcd(_EIGHTS, eighths)
        at_once = self._stores.places if self._stores else 1  # They take turns with the places.
        threads = self._warp, self._lane
        with loop(0, self._sizes.groups * (eighths // per) // at_once, 1) as (number, _, _):
            first = mul(number, at_once)
            boxes = [div_rem(add(first, box), eighths // per) for box in range(at_once)]
            places = [(group, mul(column, 8 * per)) for group, column in boxes]
            self._ahead = [(*place, chunk) for place in places for chunk in self._chunks(0, range(per))]
            self._begun = self._load(*self._ahead.pop(0))
            for group, across in places:
                self._shift = self._groups.group_row(group), across
                self._finish_box(over_k, ops, 0, range(per))
        self._shift = 0, 0
        self._warp, self._lane = threads
        fence_before()
        meet_warp()
        self._buffers.release(self._buffer, self._lane)

    def _identify(self) -> None:
        """Says again who the thread is, and where what it finishes begins."""
        super()._identify()
        down, across = reversed(self._shift) if self._sizes.swapped else self._shift
        self._row, self._column = add(self._row, down), add(self._column, across)

    def _box_place(self, group: int, eights: range) -> tuple[Index, Index]:
        """Where the box that is finished begins."""
        down, across = super()._box_place(group, eights)
        return add(down, self._shift[0]), add(across, self._shift[1])

    def _load(self, group: Index, across: Index, chunk: Chunk) -> list[ir.Value]:
        """Begins to load a thread's sums of a chunk of a box, which begins at that column of a group of rows."""
        rows, half = div_rem(group, 2)
        column = add(across, chunk.eights[0] * 8)
        column = add(add(mul(self._buffer, self._sizes.columns), mul(rows, self._sizes.across)), column)
        lane = add(self._groups.warp_row(self._warp), mul(half, WARP_ROWS))
        return self._tensor.load(column, lane, len(chunk.eights), self._element)

    def _chunk_sums(self, product: int) -> list[ir.Value]:
        """Waits for the chunk's sums, and begins to load the next one's, of this box or of the one after."""
        await_loads()
        sums = self._begun
        if self._ahead:
            self._begun = self._load(*self._ahead.pop(0))
        return sums
