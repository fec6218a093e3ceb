# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How consumers of `warpgroups` make their sums of a tile the elements of C that are written.

Before, with the sums of a tile of C as one vector::

    write C <- f(sums, read bias under a mask) under a mask

After, of a thread, which has sums of 8 columns of instructions each::

    for boxes of neighboring columns:
        for some of their sums at a time:                # as many as fit into registers with what is computed of them
            box <- f(sums, read bias)
        copy the box to C (`tma_stores`), or write each element as far as it is inside

What is added to C is read where it is, or where it was copied to before (`fetched_boxes`).

Sums of a part of K are complete when those of others have been added: of the blocks of a cluster (`partial_sums`), or of earlier blocks
(`streamed_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, value
from tilewright.build.loops import if_else, when
from tilewright.build.usedef import body, function_of
from tilewright.codegen.gpu.fetched_boxes import FetchedBoxes, added
from tilewright.codegen.gpu.partial_sums import PartialSums
from tilewright.codegen.gpu.streamed_sums import StreamedSums
from tilewright.codegen.gpu.threads import Sharing
from tilewright.codegen.gpu.tile_order import TileOrder
from tilewright.codegen.gpu.tma_loads import argument_of, axes_of, place_of
from tilewright.codegen.gpu.tma_stores import BoxStores, Chunk
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.codegen.gpu.warp_group_fragments import WarpGroups, identify
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.gpu.warpgroup import ROWS

_EIGHTS = 4
"""Groups of 8 columns that are finished at once: 16 sums of a thread, so that what is computed of them fits into registers."""


class Finishing(Sharing):
    """What is done to the sums of a tile, once they are there; where they come from is for classes derived from it."""

    _memory: ir.Value
    _order: TileOrder
    _stores: BoxStores | None
    _at: tuple[ir.Value, ir.Value]
    _sums: list[list[ir.Value]]
    _added: ir.Operation | None = None
    _fetched: FetchedBoxes | None = None
    _phase: ir.Value
    _finishes: ir.Value | None

    def __init__(self, loop: ir.Operation, groups: WarpGroups) -> None:
        """Makes it for consumers that divide the tile so."""
        super().__init__(loop, groups)
        self._groups, self._sizes = groups, groups.sizes
        self._streamed: StreamedSums | None = None

    def _find_added(self, ops: list[ir.Operation]) -> None:
        """Finds what is fetched, among the ops that finish sums."""
        if self._sizes.fetched:
            self._added = added(ops, self._element_of_c)

    def _box_stores(self, new_map: Callable[[Box], ir.Value]) -> BoxStores:
        """How C, the last operand, is written by boxes, given what makes the map for one."""
        arguments, number = body(function_of(self._loop)).arguments, self._number_of_c
        element = self._element_of_c
        box = BoxStores.box_of(self._sizes, element, number)
        tensor = new_map(box.of_rank(axes_of(arguments[number])))
        if self._added is None:
            return BoxStores(self._sizes, element, box, tensor)
        source = argument_of(self._added.operands[0])
        map_ = new_map(replace(box, operand=source).of_rank(axes_of(arguments[source])))
        self._fetched = FetchedBoxes(self._sizes, element, box, tensor, map_)
        return self._fetched

    @property
    def _number_of_c(self) -> int:
        """Which argument of the function is C: the last of its operands."""
        arguments = body(function_of(self._loop)).arguments
        return sum(isinstance(each.type, ir.MemRefType) for each in arguments) - 1

    @property
    def _element_of_c(self) -> ir.Type:
        """The type of C's elements."""
        return ir.MemRefType(body(function_of(self._loop)).arguments[self._number_of_c].type).element_type

    def _divide_steps(self, memory: ir.Value, steps: ir.Value) -> None:
        """Has blocks divide the steps of the last tiles, of so many each, and leave sums in memory."""
        self._streamed = StreamedSums(self._sizes, memory, self._order, steps)
        self._order = self._streamed.order

    def _check_room(self, sums: ir.VectorType, room: int) -> None:
        """Raises `ScheduleError` where sums of a tile do not fit into the `room`, in bytes, of the tiles of A and B."""
        down, across = sums.shape
        bytes_ = self._sizes.products * down * across * bits_of(sums.element_type) // 8
        if self._sizes.split > 1 and bytes_ > room:
            raise ScheduleError(
                f"{bytes_} bytes of sums with split={self._sizes.split}",
                where="schedule parameters",
                expected=f"at most the {room} of the stages' tiles",
                remedy="Have more stages, or smaller tiles of C",
            )

    def _identify(self) -> None:
        """Says again who the thread is."""
        self._warp, self._lane = identify()
        self._row, self._column = self._groups.origin_in(self._warp, self._lane)
        if self._stores:
            self._stores.start(self._warp, self._lane)

    def _finish_piece(self, over_k: ir.Operation, ops: list[ir.Operation], number: ir.Value) -> None:
        """Finishes the sums of a tile, or leaves those of a piece of one to the block that has its last step."""
        streamed = self._streamed
        if streamed is None:
            self._finish_tile(over_k, ops)
            return
        given = self._sums, streamed.order.has_first(number), self._warp, self._lane

        def finish() -> None:
            self._sums = streamed.add(*given)
            self._finish_tile(over_k, ops)

        if_else(streamed.order.has_last(number), finish, partial(streamed.leave, *given))

    def _finish_tile(self, over_k: ir.Operation, ops: list[ir.Operation]) -> None:
        """Finishes the sums of a tile, box by box, of which each block of a cluster that has the same tile has some."""
        sizes = self._sizes
        parts = None
        if sizes.split > 1:
            parts = PartialSums(sizes, self._memory)
            parts.publish(self._sums, self._warp, self._lane)
        exists = self._order.exists(self._at)
        with nullcontext() if exists is None else when(exists):
            self._finish_boxes(over_k, ops, parts)
        if parts:
            parts.finish()

    @property
    def _boxes(self) -> list[tuple[int, range]]:
        """The boxes of a consumer's part, by the group of 64 rows, and the groups of 8 columns of it."""
        per = self._stores.eights if self._stores else _EIGHTS
        return [
            (group, range(start, min(start + per, self._sizes.across // 8)))
            for group in range(self._sizes.groups)
            for start in range(0, self._sizes.across // 8, per)
        ]

    def _finish_boxes(self, over_k: ir.Operation, ops: list[ir.Operation], parts: PartialSums | None) -> None:
        if self._fetched:
            self._fetched.await_boxes(self._warp, self._phase)
        for number, (group, eights) in enumerate(self._boxes):
            if parts is None:
                self._finish_box(over_k, ops, group, eights)
                continue
            mine = arith.cmpi(arith.CmpIPredicate.eq, self._order.rank(), value(number % self._sizes.split))
            with when(mine):
                self._finish_box(over_k, ops, group, eights, parts)

    @staticmethod
    def _chunks(group: int, eights: range) -> list[Chunk]:
        """What of a part is finished at once, in order."""
        return [Chunk(group, tuple(eights[start : start + _EIGHTS])) for start in range(0, len(eights), _EIGHTS)]

    def _finish_box(
        self,
        over_k: ir.Operation,
        ops: list[ir.Operation],
        group: int,
        eights: range,
        parts: PartialSums | None = None,
    ) -> None:
        """Finishes sums of neighboring columns, some at a time, and writes them."""
        self._identify()
        if self._stores:
            self._stores.begin()
        for chunk in self._chunks(group, eights):
            self._chunk = chunk
            if parts:
                for product in range(self._sizes.products):
                    parts.sum(self._sums, self._chunk_of(product), self._warp, self._lane)
            self._finish_chunk(over_k.results, ops)
        if self._stores:
            self._stores.end(self._box_at(self._view, group, eights))

    def _box_at(self, view: ir.Value, group: int, eights: range) -> list[Index]:
        """The indices of a box's first element in the operand that a view of the tile is of."""
        down, across = self._box_place(group, eights)
        row, column = (across, down) if self._sizes.swapped else (down, across)
        *entry, down, across = place_of(view, self._of)
        return [*entry, add(down, row), add(across, column)]

    def _fetch(self, fetched: FetchedBoxes) -> None:
        """Has what is added to the tile copied to where its boxes of C will be, if the tile is finished here."""
        assert self._added is not None, "it is fetched"
        view = self._added.operands[0]
        with nullcontext() if self._finishes is None else when(self._finishes):
            boxes = [self._box_at(view, group, eights) for group, eights in self._boxes]
            fetched.fetch(boxes, self._warp, self._phase)

    def _box_place(self, group: int, eights: range) -> tuple[Index, Index]:
        """Where a part begins in the tile: rows and columns of instructions."""
        return add(self._groups.warp_row(self._warp), group * ROWS), eights[0] * 8

    def _chunk_of(self, product: int) -> Chunk:
        """Where a product's sums of the chunk are."""
        return replace(self._chunk, group=product * self._sizes.groups + self._chunk.group)

    def _finish_chunk(self, results: Sequence[ir.Value], ops: list[ir.Operation]) -> None:
        """Emits what is done to some sums of each product. A thread's come by 8 columns of instructions, of these by row."""
        self._part = self._groups.part_of(self._chunk)
        eights = range(len(self._chunk.eights))
        places = [(eight, half, each) for half in (0, 1) for eight in eights for each in (0, 1)]
        if self._sizes.swapped:
            places = [(eight, half, each) for eight in eights for each in (0, 1) for half in (0, 1)]
        for product, result in enumerate(results):
            sums = self._chunk_sums(product)
            elements = [sums[eight * 4 + half * 2 + each] for eight, half, each in places]
            self._values[result] = vector.from_elements(self._part_type(result.type), elements)
        for op in ops:
            self._emit(op)

    def _chunk_sums(self, product: int) -> list[ir.Value]:
        """A thread's sums of the chunk, of a product, by 8 columns: two of a row, and two of the row 8 below."""
        start = self._chunk.eights[0] * 4
        return self._sums[self._chunk_of(product).group][start : start + len(self._chunk.eights) * 4]

    def _part_of(self, view: ir.Value, op: ir.Operation) -> ir.Value:
        """The thread's part of an operand: of what was copied before, from there."""
        if self._fetched and op == self._added:
            return self._fetched.get(self._chunk, self._part_type(op.results[0].type))
        return super()._part_of(view, op)

    def _store(self, part: ir.Value, view: ir.Value, extents: Sequence[Index]) -> None:
        """Writes the thread's part: what is written is C."""
        if self._stores:
            self._view = view
            self._stores.put(self._chunk, part)
        else:
            super()._store(part, view, extents)
