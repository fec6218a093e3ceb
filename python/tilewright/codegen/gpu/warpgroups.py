# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares tiles of C between a warp group that copies boxes of A and B, and others that multiply them (Hopper).

Upstream has the instructions, and no op that divides a loop between those who copy and those who multiply.

Before::

    forall (i, j) in tiles:
        for k: sums = contract(read A under a mask, read B under a mask, sums)
        write C <- f(sums)

After, of blocks that go on as long as there are tiles (`tile_order`), with slots for tiles of A and B (`ring`)::

    if first warp group:                                 # the producer: one thread of it
        for (i, j) in my tiles:
            for k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot
    else:                                                # a consumer
        for (i, j) in my tiles:
            for k:
                await full[slot]
                sums += tile_a[slot] * tile_b[slot], asynchronously
                await the product before;  release the slot before
            await all products;  release the last slot
            write C <- f(sums), by boxes while the next tile is multiplied (`finished_tiles`)

Consumers have a part of the same tile each, or, in ping-pong, each a tile of its own: two named barriers let them multiply in turns.

Two blocks of a cluster whose tiles lie below one another have one half each of the tile of B copied to both; a slot is then empty
when the consumers of both have read it. Blocks of a cluster that have the same tile have a part of K each: their sums go to shared
memory, from where each block adds up some of all blocks' sums, and finishes them.

Sources: the PTX ISA manual, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate" and "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import reduce
from itertools import accumulate

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, div, less, mul, value, values
from tilewright.build.loops import Loop, if_else, loop, when
from tilewright.build.usedef import body, function_of, retype
from tilewright.build.views import mixed
from tilewright.codegen.gpu import shared, staging
from tilewright.codegen.gpu.barriers import (
    REGISTERS,
    await_turn,
    begin_cluster,
    elected,
    follow_kernels,
    give_turn,
    meet_cluster,
    set_registers,
)
from tilewright.codegen.gpu.finished_tiles import Finishing
from tilewright.codegen.gpu.ring import Ring, Turn, cluster_address
from tilewright.codegen.gpu.tile_order import TileOrder
from tilewright.codegen.gpu.tma_loads import Coordinates, argument_of, axes_of, images_of, place_of, reads_of
from tilewright.codegen.gpu.tma_tiles import Box, BoxedTile, boxed
from tilewright.codegen.gpu.warp_group_fragments import WARP, WarpGroups
from tilewright.codegen.gpu.wgmma import Products
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, nvvm, scf
from tilewright.schedules.gpu.warpgroup import ROWS, WARP_GROUP


class Specialized(Finishing):
    """One loop over tiles on its way to warp groups of two kinds."""

    _ACROSS = frozenset({16})
    """Bits of elements that instructions take across K."""
    _FIRST_BOXED = 0
    """Of A and each B, the first that is copied in boxes."""
    _FILLERS = 1
    """Threads that fill a slot."""
    _REGISTERS = REGISTERS
    """Of threads that copy and that multiply, by consumers."""

    def __init__(self, loop: ir.Operation, groups: WarpGroups, types: tuple[str, str], *, boxes_of_c: bool) -> None:
        """Makes it for a product of elements of `types`; with `boxes_of_c`, C is written by copies of boxes."""
        super().__init__(loop, groups)
        self._types = types
        self._boxes_of_c = boxes_of_c
        self._of_pair: ir.Attribute | None = None
        self.boxes: list[Box] = []
        """How operands are copied, in the order of the tensor maps that the kernel takes."""

    def run(self) -> None:
        """Makes the loop the code of a thread.

        Raises:
            LoweringError: There is an op in it that cannot be shared.
        """
        with ir.InsertionPoint(self._loop):
            self._thread = gpu.thread_id(gpu.Dimension.x)
            self._blocks = self._enter_entry(self._loop)
            ops = [op.operation for op in body(self._blocks).operations]
            self._emit_all([op for op in ops if op.name != "scf.forall.in_parallel"])
        self._loop.erase()

    def _emit_all(self, ops: list[ir.Operation]) -> None:
        """The tiles of a block, for both kinds of groups."""
        loops = [number for number, op in enumerate(ops) if op.name == "scf.for"]
        if len(loops) != 1:
            raise LoweringError(
                f"{len(loops)} loops over K in a block", stage="threads", expected="one", remedy="K has to be above bk"
            )
        before, over_k, after = ops[: loops[0]], ops[loops[0]], ops[loops[0] + 1 :]
        self._find_added(after)
        self._prepare(over_k)
        self._specialize(before, over_k, after)

    def _specialize(self, before: list[ir.Operation], over_k: ir.Operation, after: list[ir.Operation]) -> None:
        """What each group of warps does."""
        if self._sizes.streamed:
            self._enter(before, (value(0), value(0)))
            self._divide_steps(self._workspace, self._steps(over_k, value(0))[2])
        # One consumer of many sums has as many registers as a thread can have from the start.
        moved = self._sizes.consumers > 1 or self._sizes.resident > 1
        registers = self._REGISTERS[self._sizes.consumers] if moved else None

        def copy() -> None:
            if registers:
                set_registers("decrease", registers[0])
            self._produce(before, over_k)

        def multiply() -> None:
            if registers:
                set_registers("increase", registers[1])
            self._consume(before, over_k, after)

        if_else(less(self._thread, WARP_GROUP), copy, multiply)

    def _prepare(self, over_k: ir.Operation) -> None:
        """Tiles, barriers, and the maps of the tensors, which are new parameters of the kernel."""
        sizes = self._sizes
        self._place_tiles(over_k)
        readers = 4 if sizes.pingpong else 4 * sizes.consumers
        self._ring = Ring(sizes.stages, readers, sizes.shared, sizes.beside, fillers=self._FILLERS)
        element = ir.VectorType(over_k.results[0].type).element_type
        self._products = Products(sizes, self._tiles, self._places, self._memory, self._types, element)
        self._initialize(self._ring, *([self._fetched.ring] if self._fetched else []))

    def _place_tiles(self, over_k: ir.Operation) -> None:
        """Where tiles are, how they are copied, and which of C a block has."""
        sizes = self._sizes
        self._reads = self._sources(over_k)
        self._tiles = [self._tile(number, read) for number, read in enumerate(self._reads)]
        *self._places, self._slot_bytes = accumulate((each.bytes for each in self._tiles), initial=0)
        room = sizes.stages * self._slot_bytes
        self._check_room(ir.VectorType(over_k.results[0].type), room)
        self._memory = shared.allocate(room)
        arguments = list(body(function_of(self._loop)).arguments)
        if sizes.streamed:
            self._workspace = self._new_parameter()
        boxed_ = list(enumerate(self._tiles))[self._FIRST_BOXED :]
        self._images = images_of(function_of(self._loop))
        self._maps = {number: self._map(self._box(each, axes_of(arguments[each.operand]))) for number, each in boxed_}
        rows, columns = self._tile_counts()
        self._order = TileOrder(rows, columns, sizes.band, sizes.cluster, sizes.beside, sizes.split)
        self._stores = self._box_stores(self._map) if self._boxes_of_c else None

    def _sources(self, over_k: ir.Operation) -> list[ir.Operation]:
        """What reads A and each B as they are stored."""
        return reads_of(over_k)

    def _initialize(self, *rings: Ring, meet: Callable[[], None] = begin_cluster) -> None:
        """Has one thread initialize barrier objects, after which all threads that use them meet; those of clusters by `meet`."""
        with when(arith.cmpi(arith.CmpIPredicate.eq, self._thread, value(0))):
            for ring in rings:
                ring.initialize()
            for map_ in self._maps.values():
                nvvm.prefetch(map_, tensormap=True)
        if self._sizes.blocks > 1:
            meet()
        else:
            gpu.barrier()
        follow_kernels()

    def _tile(self, number: int, read: ir.Operation) -> BoxedTile:
        kind = ir.VectorType(read.results[0].type)
        size = bits_of(kind.element_type)
        down, across = self._held(number, kind)
        view, depth = read.operands[0], 0 if number else 1
        parts = self._parts(number)
        tile = boxed(argument_of(view), (down, across), staging.neighbors(view), size, parts, depth=depth)
        if size not in self._ACROSS and not tile.along_k:
            raise LoweringError(
                f"elements of {size} bits that do not lie along K in memory cannot be multiplied", stage="threads"
            )
        return tile

    def _held(self, number: int, kind: ir.VectorType) -> tuple[int, int]:
        """The extents of the tile of A (0), or of a B, that a block has in its shared memory."""
        down, across = kind.shape
        return down, across

    def _parts(self, number: int) -> int:
        """Blocks that have a part each of a tile of A (0), or of a B, copied to all of them."""
        return self._sizes.cluster if number else self._sizes.beside

    def _box(self, tile: BoxedTile, axes: int) -> Box:
        """What is copied at once of an operand of so many axes, or of the images that it is the matrix of patches of."""
        images = self._images.get(tile.operand)
        return replace(tile.box(axes), window=images and images.window)

    def _map(self, box: Box) -> ir.Value:
        """A new parameter of the kernel: the tensor map for a box."""
        self.boxes.append(box)
        return self._new_parameter()

    def _new_parameter(self) -> ir.Value:
        """A new parameter of the kernel, a pointer, behind all others."""
        function = function_of(self._loop)
        made = body(function).add_argument(ir.Type.parse("!llvm.ptr"), function.location)
        retype(function)
        return made

    def _tile_counts(self) -> list[ir.Value]:
        """Rows and columns of tiles: the extents of the loop over blocks."""
        return values(mixed(self._blocks.attributes["staticUpperBound"], map(self._of, self._blocks.operands)))

    def _steps(self, over_k: ir.Operation, number: ir.Value) -> tuple[Index, ir.Value, ir.Value]:
        """The first and the last index along K of this block, of a tile by its number, and how many steps there are between them."""
        lower, upper, *_ = (self._of(operand) for operand in over_k.operands)
        bk = value(self._sizes.bk)
        steps = arith.ceildivui(upper, bk)
        share = self._order.share(number, steps)
        if share is None:
            return lower, upper, steps
        first, last = share
        return arith.muli(first, bk), arith.minui(arith.muli(last, bk), upper), arith.subi(last, first)

    def _over_tiles(self, first: ir.Value, step: ir.Value, turn: Turn) -> AbstractContextManager[Loop]:
        """The loop over the tiles of a thread, which carries a turn."""
        return loop(first, self._order.count(), step, turn.values)

    def _enter(self, before: list[ir.Operation], at: tuple[ir.Value, ir.Value]) -> None:
        """Emits what precedes the products of a tile, given its row and column of tiles."""
        self._at = at
        self._values |= dict(zip(body(self._blocks).arguments, at, strict=True))
        for op in before:
            self._emit(op)

    def _produce(self, before: list[ir.Operation], over_k: ir.Operation) -> None:
        """What the group does that copies: one thread of it."""
        with self._over_tiles(self._order.first(), self._order.step(), self._ring.first()) as (tile, carried, over):
            turn = Turn(*carried)
            self._enter(before, self._order.place(tile))
            lower, upper, steps = self._steps(over_k, tile)
            with self._copiers(), loop(lower, upper, self._sizes.bk, turn.values) as (k, carried, _):
                now = Turn(*carried)
                self._ring.await_empty(now)
                self._fill(over_k, k, now)
                scf.yield_(self._ring.after(now).values)
            if self._sizes.split > 1:
                meet_cluster()
                meet_cluster()
            scf.yield_(self._ring.after(turn, steps).values)
        if self._sizes.shared > 1:
            with self._one_thread():
                # A block does not end while another one still arrives at its barriers.
                self._ring.drain(Turn(*over.results))

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """Where code goes for the one thread that copies."""
        with when(less(self._thread, WARP)), when(elected()):
            yield

    def _copiers(self) -> AbstractContextManager[None]:
        """Where code goes for those who copy the tiles of a tile of C."""
        return self._one_thread()

    def _fill(self, over_k: ir.Operation, k: ir.Value, turn: Turn) -> None:
        """Has what is copied in boxes for a step copied to its slot, which is empty."""
        self._values[body(over_k).arguments[0]] = k
        barrier = self._expect(turn)
        for number in self._maps:
            self._copy(number, self._start_of(turn, number), barrier)

    def _start_of(self, turn: Turn, number: int) -> Index:
        """Where a tile of a slot starts: that of A (0), or of a B."""
        return add(mul(turn.slot, self._slot_bytes), self._places[number])

    def _expect(self, turn: Turn) -> ir.Value:
        """Says how many bytes fill a slot; returns the barrier object that their copies tell."""
        self._ring.expect(turn, sum(self._tiles[number].bytes for number in self._maps))
        return self._ring.full(turn.slot)

    def _origin(self, number: int) -> list[Index]:
        """Where in A (0), or in a B, a block's tile starts: in the batch, and in the matrix."""
        return place_of(self._reads[number].operands[0], self._of)

    def _copy(self, number: int, start: Index, barrier: ir.Value) -> None:
        """Begins the copies of the boxes of A (0), or of a B, to where its tile starts."""
        read, tile = self._reads[number], self._tiles[number]
        *entry, row, column = self._origin(number)
        inner, outer = (column, row) if staging.neighbors(read.operands[0]) == 1 else (row, column)
        mask = None
        if tile.parts > 1:
            (below, beside), rows = self._order.in_cluster(), tile.outer // tile.parts
            part = below if number else beside
            outer = add(outer, mul(part, rows))
            start = add(start, mul(part, tile.box_bytes // tile.parts))
            mask = self._sharers(number, below, beside)
        for part in range(tile.count):
            target = cluster_address(shared.pointer(self._memory, add(start, part * tile.box_bytes)))
            first = add(inner, part * tile.inner)
            if tile.operand in self._images:
                box = Coordinates.of_patches(self._images[tile.operand], outer, first)
            else:
                box = Coordinates([div(first, tile.packed), outer, *reversed(entry)])
            nvvm.cp_async_bulk_tensor_shared_cluster_global(
                target,
                self._maps[number],
                [*map(shared.as_i32, box.at)],
                barrier,
                [*map(shared.as_i16, box.offsets)],
                multicast_mask=mask,
                mode=box.mode,
                group=self._of_pair,
            )

    def _sharers(self, number: int, below: Index, beside: Index) -> ir.Value:
        """The blocks of a cluster that have the same tile of an operand as this one, as bits by their numbers."""
        across = self._sizes.beside
        word = ir.IntegerType.get_signless(16)
        if number:
            mask, first = sum(1 << row * across for row in range(self._sizes.cluster)), beside
        else:
            mask, first = (1 << across) - 1, mul(below, across)
        shift = first if isinstance(first, int) else arith.index_cast(word, first)
        mask_ = arith.constant(word, mask)
        return mask_ if shift == 0 else arith.shli(mask_, shift)

    def _consume(self, before: list[ir.Operation], over_k: ir.Operation, after: list[ir.Operation]) -> None:
        """What a group does that multiplies."""
        sizes, order = self._sizes, self._order
        first, step, turn = order.first(), order.step(), self._ring.first()
        self._identify()
        consumer = div(self._warp, 4)
        if sizes.pingpong:
            # The other one's steps for its tile lie between those for two of this one's. Parities tell rounds apart as long as nobody
            # waits for one further ahead: turns see to that too.
            first = arith.addi(first, arith.muli(step, value(consumer)))
            step = arith.muli(step, value(2))
            self._enter(before, (value(0), value(0)))
            turn = self._ring.after(turn, arith.muli(self._steps(over_k, first)[2], value(consumer)))
            self._begin_turns(consumer)
        phase = [value(0)] if self._fetched else []
        with loop(first, order.count(), step, [*turn.values, *phase]) as (tile, (slot, parity, *phase), _):
            turn = Turn(slot, parity)
            self._enter(before, order.place(tile))
            if self._fetched:
                (self._phase,), self._finishes = phase, self._finishes_piece(tile)
                self._fetch(self._fetched)
            if sizes.pingpong:
                await_turn(consumer)
            lower, upper, steps = self._steps(over_k, tile)
            row = 0 if sizes.pingpong else mul(consumer, sizes.groups * ROWS)
            sums, turn = self._multiply_tile((lower, upper, steps), turn, row)
            self._sums = [self._products.elements(each) for each in sums]
            self._finish_piece(over_k, after, tile)
            turn = self._ring.after(turn, steps) if sizes.pingpong else turn
            scf.yield_([*turn.values, *map(self._after_phase, phase)])
        if self._stores:
            self._stores.finish()

    def _finishes_piece(self, number: ir.Value) -> ir.Value | None:
        """Whether a consumer finishes the tile of a piece, by its number; None where it does so with all."""
        asked = [self._order.exists(self._at)]
        if self._streamed:
            asked.append(self._streamed.order.has_last(number))
        known = [each for each in asked if each is not None]
        return reduce(arith.andi, known) if known else None

    def _after_phase(self, phase: ir.Value) -> ir.Value:
        """The phase of what is fetched for the next tile."""
        turned = arith.xori(phase, value(1))
        return turned if self._finishes is None else arith.select(self._finishes, turned, phase)

    def _begin_turns(self, consumer: Index) -> None:
        """The first one's turn comes first."""
        with when(arith.cmpi(arith.CmpIPredicate.eq, value(consumer), value(1))):
            give_turn(0)

    def _multiply_tile(
        self, over: tuple[Index, ir.Value, ir.Value], turn: Turn, row: Index
    ) -> tuple[list[ir.Value], Turn]:
        """The sums of a tile, of rows from `row` on, and the turn after it; zeros where `over`, as `_steps` has it, is no step."""
        lower, upper, steps = over
        kinds = [self._products.instruction.kind] * self._sizes.summed + [each.type for each in turn.values]
        if self._sizes.pingpong:
            # A branch around products that are begun in turns would have the assembler make them wait for each other (C7515).
            sums, after = self._multiply_all(lower, upper, turn, row)
            give_turn(arith.xori(value(div(self._warp, 4)), value(1)))
            nvvm.wgmma_wait_group_sync_aligned(0)
            with when(less(0, steps)):
                self._release_last(after)
            return sums, after

        def some() -> list[ir.Value]:
            sums, after = self._multiply_all(lower, upper, turn, row)
            nvvm.wgmma_wait_group_sync_aligned(0)
            self._release_last(after)
            return [*sums, *after.values]

        def none() -> list[ir.Value]:
            return [*self._products.zeros(), *turn.values]

        # As the loop over K asks: so nothing but products makes sums until they have been waited for.
        *sums, slot, parity = if_else(less(lower, upper), some, none, kinds)
        return sums, Turn(slot, parity)

    def _multiply_all(self, lower: Index, upper: ir.Value, turn: Turn, row: Index) -> tuple[list[ir.Value], Turn]:
        """The loop over K of those that multiply, of rows from `row` on: the sums, which are not waited for, and the turn after it."""
        promote, pingpong = self._sizes.promote, self._sizes.pingpong
        start = self._products.zeros() if promote or pingpong else self._products.undefined()
        with loop(lower, upper, self._sizes.bk, [*start, *turn.values]) as (k, (*carried, slot, parity), over):
            turn = Turn(slot, parity)
            self._await_full(turn)
            if promote:
                sums = self._promoted(slot, row, carried)
            else:
                later = less(lower, k)
                sums = self._products.begin(slot, row, carried, True if pingpong else later)
                nvvm.wgmma_wait_group_sync_aligned(1)
                with when(later):
                    self._ring.release(self._ring.before(turn), self._lane)
            scf.yield_([*sums, *self._ring.after(turn).values])
        *sums, slot, parity = over.results
        return list(sums), Turn(slot, parity)

    def _await_full(self, turn: Turn) -> None:
        """Waits until a slot has been filled."""
        self._ring.await_full(turn)

    def _promoted(self, slot: ir.Value, row: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Adds a slot's products to sums, 64 rows at a time, for which there are registers; the slot is free before the last are added.

        Another consumer's products go on meanwhile.
        """
        results: list[ir.Value] = []
        for group, sum_ in enumerate(sums):
            made = self._products.begin(slot, row, [self._products.instruction.undefined()], adds=False, first=group)
            nvvm.wgmma_wait_group_sync_aligned(0)
            if group == len(sums) - 1:
                self._ring.release(slot, self._lane)
            results += self._products.add([sum_], made)
        return results

    def _release_last(self, turn: Turn) -> None:
        """Releases the slot of the last step, given the turn after it."""
        if not self._sizes.promote:
            self._ring.release(self._ring.before(turn), self._lane)
