# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warp groups where rows of A are taken from a table: all threads of the group that copies bring them, piece by piece (`gathered_rows`).

Copies of boxes take rows that lie one after the other; those that take rows by their numbers are of later chips.

Before, as in `warpgroups`: ``for k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot``. After, in
each thread of the group that copies::

    numbers of the tile's rows to shared memory;  the group meets
    for k:
        await empty[slot]
        one thread: expect so many bytes at full[slot];  copy boxes of B to slot
        copy my pieces of rows of A to slot, to where copies of boxes would put them
        arrive at full[slot] when these copies are made

Those who multiply fence between such copies and their products, which read shared memory by another path than threads write to it.

Source: the PTX ISA manual, "cp.async.mbarrier.arrive" and "Async proxy".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.build.index import Index, div_rem, value
from tilewright.build.usedef import body
from tilewright.codegen.gpu import gathered_rows, staging
from tilewright.codegen.gpu.barriers import MORE_REGISTERS, meet_copiers
from tilewright.codegen.gpu.reads import Reading
from tilewright.codegen.gpu.ring import Turn
from tilewright.codegen.gpu.tma_stores import fence_copies
from tilewright.codegen.gpu.warpgroups import Specialized
from tilewright.mlir import ir
from tilewright.mlir.dialects import memref, nvvm
from tilewright.schedules.gpu.warpgroup import WARP_GROUP


class _Boxes(staging.Tile):
    """A tile of boxes side by side, as copies of boxes would leave it: of the same swizzle."""

    __slots__ = ()

    def of_rows(self, slot: Index, outer: Index, inner: Index) -> list[ir.Value]:
        """Where an element is, by its row and column of the tile."""
        box, within = div_rem(inner, ir.MemRefType(self.buffer.type).shape[2])
        return super().of_rows(box, outer, within)


class GatheringGroups(Specialized):
    """One loop over tiles on its way to a group that copies boxes of B and rows of a table, and others that multiply them."""

    _FILLERS = 1 + WARP_GROUP
    _FIRST_BOXED = 1
    _REGISTERS = MORE_REGISTERS

    @contextmanager
    def _copiers(self) -> Iterator[None]:
        """All threads of the group, which know the numbers of the tile's rows."""
        view = self._reads[gathered_rows.TABLE].operands[0]
        meet_copiers()  # Nobody reads the numbers of the tile before any longer.
        numbers = gathered_rows.bring(view, self._of, self._sizes.bm, self._team, meet_copiers)
        scattered = {gathered_rows.TABLE: numbers}
        self._reading = Reading(self._of, self._extents, aligned=True, groups={}, scattered=scattered)
        yield

    @property
    def _team(self) -> staging.Team:
        return staging.Team(self._thread, WARP_GROUP)

    def _fill(self, over_k: ir.Operation, k: ir.Value, turn: Turn) -> None:
        """Has the tiles of each B copied in boxes by one thread, and copies that of A."""
        with self._one_thread():
            super()._fill(over_k, k, turn)
        self._enter_step(body(over_k), k)
        source = self._reading.pieces(self._reads[gathered_rows.TABLE])
        assert source is not None, "rows are gathered"
        staging.begin_copies(self._tile_of(turn), 0, source, self._team)
        nvvm.cp_async_mbarrier_arrive(self._ring.full(turn.slot), noinc=True)

    def _tile_of(self, turn: Turn) -> staging.Tile:
        """The tile of A in a slot."""
        tile = self._tiles[gathered_rows.TABLE]
        element = ir.VectorType(self._reads[gathered_rows.TABLE].results[0].type).element_type
        space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), staging.SHARED)
        kind = ir.MemRefType.get([tile.count, tile.outer, tile.inner], element, memory_space=space)
        place = value(self._start_of(turn, gathered_rows.TABLE))
        buffer = memref.view(kind, self._memory, place, [])
        return _Boxes(buffer, (tile.outer, tile.count * tile.inner), swapped=False, swizzled=True)

    def _await_full(self, turn: Turn) -> None:
        """Waits until a slot has been filled: what threads have copied is then known to products too."""
        super()._await_full(turn)
        fence_copies()
