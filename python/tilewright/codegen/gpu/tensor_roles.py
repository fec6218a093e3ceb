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

Of a pair (`cta_group::2`), each block has its own rows of A and half of B copied to itself, and the first block multiplies for both::

    await empty[slot];  in the first block: expect the bytes of both at full[slot]
    copy boxes of A, and of half of B, to slot;  they tell full[slot] of the first block

The first block's thread waits there, and has barrier objects of both told: empty[slot] and summed[buffer]. Who finishes sums in either
tells finished[buffer] of the first block.

Blocks of a cluster that have the same tile have a part of K each, and divide the sums that they add up (`partial_sums`); or blocks leave
sums in memory for others (`streamed_sums`). Either way they come from tensor memory some at a time.

Source: the PTX ISA manual, "TensorCore 5th Generation Family Instructions": "tcgen05 Memory Consistency Model Canonical Synchronization
Patterns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd

from tilewright.build.index import Index, add, div, div_rem, less, mul, value
from tilewright.build.loops import if_else, loop, when
from tilewright.codegen.gpu.barriers import elected, meet_cluster, meet_multiplier, meet_warp
from tilewright.codegen.gpu.partial_sums import PartialSums
from tilewright.codegen.gpu.ring import Ring, Turn
from tilewright.codegen.gpu.tensor_products import TensorProducts
from tilewright.codegen.gpu.tensor_sums import TensorMemory, await_loads, fence_after, fence_before, group_of
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
Place = tuple[Index, Index, Chunk]
"""Which 16 rows of a warp's, from which column of instructions on, and which groups of 8 columns from there."""


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
        self._earlier: ir.Value | None = None
        self._place_tiles(over_k)
        # Of a pair, one thread tells of the products of both, and waits for those who finish sums of either.
        self._ring = Ring(sizes.stages, 1, 1 if sizes.pair else sizes.cluster)
        self._buffers = Ring(sizes.buffers, WARP_GROUP // WARP, sizes.cluster if sizes.pair else 1)
        self._group = group_of(2 if sizes.pair else 1)
        self._of_pair = self._group if sizes.pair else None
        self._tensor = TensorMemory(sizes.buffers * sizes.columns, self._group)
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
        if self._sizes.streamed:
            self._enter(before, (value(0), value(0)))
            self._divide_steps(self._workspace, self._steps(over_k, value(0))[2])
        with when(less(self._thread, WARP)):
            self._produce(before, over_k)
        with when(self._is_second_warp()):
            self._multiply(before, over_k)
        if self._sizes.split > 1:
            idle = less(self._thread, WARP_GROUP), less(2 * WARP - 1, self._thread)
            with when(arith.andi(*idle)), loop(self._order.first(), self._order.count(), self._order.step()):
                self._meet_twice()
        with when(arith.cmpi(arith.CmpIPredicate.uge, self._thread, value(WARP_GROUP))):
            self._consume(before, over_k, after)
            fence_before()
        if self._sizes.pair:
            meet_cluster()  # Products of the first block are of the second one's memory, too.
        else:
            gpu.barrier()
        with when(self._is_second_warp()):
            self._tensor.free()

    def _is_first(self) -> ir.Value:
        """Whether a block is the first one of its cluster."""
        return arith.cmpi(arith.CmpIPredicate.eq, self._order.rank(), value(0))

    def _held(self, number: int, kind: ir.VectorType) -> tuple[int, int]:
        down, across = super()._held(number, kind)
        return (down, self._sizes.held_columns) if number else (down, across)

    def _parts(self, number: int) -> int:
        return 1 if self._sizes.pair else super()._parts(number)

    def _origin(self, number: int) -> list[Index]:
        *before, column = super()._origin(number)
        if number and self._sizes.pair:
            column = add(column, mul(self._order.rank(), self._sizes.held_columns))
        return [*before, column]

    def _expect(self, turn: Turn) -> ir.Value:
        """Of a pair, the first block waits for the copies of both."""
        if not self._sizes.pair:
            return super()._expect(turn)
        with when(self._is_first()):
            self._ring.expect(turn, 2 * self._slot_bytes)
        return self._ring.full_in(0, turn.slot)

    def _steps(self, over_k: ir.Operation, number: ir.Value) -> tuple[Index, ir.Value, ir.Value]:
        """One step at least, which multiplies zeros: no thread writes to tensor memory.

        Where K is 0, or a part of it has no steps, it begins outside of A and B: what is there is zeros.
        """
        lower, upper, steps = super()._steps(over_k, number)
        some = less(lower, upper)
        first = arith.select(some, value(lower), arith.maxui(value(lower), value(self._sizes.bk)))
        return first, arith.maxui(upper, value(add(first, 1))), arith.maxui(steps, value(1))

    def _multiply(self, before: list[ir.Operation], over_k: ir.Operation) -> None:
        """What the warp does that multiplies: one thread of it."""
        order, first, buffers = self._order, self._ring.first(), self._buffers.first()
        carried = [*first.values, *buffers.values]
        with loop(order.first(), order.count(), order.step(), carried) as (tile, (slot, parity, *buffer), _):
            buffers = Turn(*buffer)
            self._enter(before, order.place(tile))
            lower, upper, steps = self._steps(over_k, tile)
            with when(elected()), when(self._is_first()) if self._sizes.pair else nullcontext():
                self._buffers.await_empty(buffers)
                with loop(lower, upper, self._sizes.bk, [slot, parity]) as (k, carried, _):
                    turn = Turn(*carried)
                    self._ring.await_full(turn)
                    fence_after()
                    adds = arith.cmpi(arith.CmpIPredicate.ugt, k, value(lower))
                    self._products.begin(turn.slot, buffers.slot, adds)
                    self._commit(self._ring.empty(turn.slot), self._sizes.cluster)
                    scf.yield_(self._ring.after(turn).values)
                self._commit(self._buffers.full(buffers.slot), self._sizes.cluster if self._sizes.pair else 1)
            if self._sizes.split > 1:
                meet_multiplier()
            self._meet_twice()
            after = self._ring.after(Turn(slot, parity), steps)
            scf.yield_([*after.values, *self._buffers.after(buffers).values])

    def _meet_twice(self) -> None:
        """Meets those who add up sums of parts of K, as often as they meet for a tile."""
        if self._sizes.split > 1:
            meet_cluster()
            meet_cluster()

    def _commit(self, barrier: ir.Value, blocks: int) -> None:
        """Has a barrier object of so many blocks of the cluster told when all products that have been begun are complete."""
        mask = None
        if blocks > 1:
            mask = arith.constant(ir.IntegerType.get_signless(16), (1 << blocks) - 1)
        nvvm.tcgen05_commit(barrier, multicast_mask=mask, group=self._group)

    def _consume(self, before: list[ir.Operation], over_k: ir.Operation, after: list[ir.Operation]) -> None:
        """What the warps do that finish sums."""
        self._identify()
        with self._over_tiles(self._order.first(), self._order.step(), self._buffers.first()) as (tile, carried, _):
            turn = Turn(*carried)
            self._enter(before, self._order.place(tile))
            self._buffers.await_full(turn)
            fence_after()
            self._buffer = turn.slot
            self._finish_piece(over_k, after, tile)
            scf.yield_(self._buffers.after(turn).values)
        if self._stores:
            self._stores.finish()

    def _finish_piece(self, over_k: ir.Operation, ops: list[ir.Operation], number: ir.Value) -> None:
        """Finishes the sums of a tile, or leaves those of a piece of one to the block that has its last step."""
        streamed = self._streamed
        if streamed is None:
            self._finish_tile(over_k, ops)
            return
        has_first = streamed.order.has_first(number)

        def finish() -> None:
            self._earlier = streamed.await_others(has_first, self._warp)
            self._finish_tile(over_k, ops)
            self._earlier = None

        def leave() -> None:
            self._move(streamed.put)
            streamed.tell(has_first, self._warp)

        if_else(streamed.order.has_last(number), finish, leave)

    def _move(self, put: Callable[[Sequence[ir.Value], Index, Index, Index], None]) -> None:
        """Hands all of a thread's sums of a tile to `put`, some at a time, with the number of the first one; and frees their memory."""
        eighths = self._sizes.across // 8
        per = gcd(_EIGHTS, eighths)
        (chunk,) = self._chunks(0, range(per))
        with loop(0, self._sizes.groups * (eighths // per), 1) as (number, _, _):
            group, column = div_rem(number, eighths // per)
            begun = self._load(group, mul(column, 8 * per), chunk)
            await_loads()
            put(begun, mul(number, 4 * per), self._warp, self._lane)
        self._free_buffer()

    def _free_buffer(self) -> None:
        """Says that a warp has loaded all of a tile's sums."""
        fence_before()
        meet_warp()
        self._buffers.release(self._buffer, self._lane)

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
        start, step, parts = value(0), 1, None
        if self._sizes.split > 1:
            parts = PartialSums(self._sizes, self._memory)
            meet_multiplier()  # Which knows that tiles have been copied; sums go to where they are.
            self._move(parts.put)
            meet_cluster()
            start, step = self._order.rank(), self._sizes.split
        with loop(start, self._sizes.groups * (eighths // per) // at_once, step) as (number, _, _):
            first = mul(number, at_once)
            boxes = [div_rem(add(first, box), eighths // per) for box in range(at_once)]
            places = [(group, mul(column, 8 * per)) for group, column in boxes]
            chunks = [(*place, chunk) for place in places for chunk in self._chunks(0, range(per))]
            self._source = (
                self._of_parts(parts, chunks) if parts else self._of_tensor_memory(self._load(*chunks[0]), chunks)
            )
            for group, across in places:
                self._shift = self._groups.group_row(group), across
                self._finish_box(over_k, ops, 0, range(per))
        self._shift = 0, 0
        self._warp, self._lane = threads
        if parts is None:
            self._free_buffer()
        else:
            parts.finish()

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
        return next(self._source)

    def _of_tensor_memory(self, begun: list[ir.Value], chunks: Sequence[Place]) -> Iterator[list[ir.Value]]:
        """Waits for the sums of each chunk, and begins to load the next one's, of the same box or of the one after.

        Those of the first one are `begun`.
        """
        for number, chunk in enumerate(chunks):
            await_loads()
            sums = begun
            if number + 1 < len(chunks):
                begun = self._load(*chunks[number + 1])
            if self._earlier is not None:
                assert self._streamed is not None, "others have left sums"
                first = self._first(*chunk)
                sums = self._streamed.add_from(self._earlier, sums, first, self._warp, self._lane)
            yield sums

    def _of_parts(self, parts: PartialSums, chunks: Sequence[Place]) -> Iterator[list[ir.Value]]:
        """Adds up the sums of each chunk that the blocks of a cluster have of parts of K."""
        for group, across, chunk in chunks:
            numbers = range(4 * len(chunk.eights))
            first = self._first(group, across, chunk)
            yield parts.sum_from(first, numbers, self._element, self._warp, self._lane)

    def _first(self, group: Index, across: Index, chunk: Chunk) -> Index:
        """The number of the first of a chunk's sums among those that a thread has of a tile: four of each 8 columns."""
        return add(add(mul(group, self._sizes.across // 2), div(across, 2)), 4 * chunk.eights[0])
