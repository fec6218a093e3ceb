# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a thread brings its pieces of a tile to shared memory itself: it begins to load them, and later stores what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Index, add, less
from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu.prologues import Computed
from tilewright.codegen.gpu.reads import Read
from tilewright.codegen.gpu.staging import Piece, Team, Tile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_FIRST = Piece(0, 0, None)
"""Any piece: of all the same is read."""


@dataclass(frozen=True, slots=True)
class Filling:
    """A thread's pieces of a tile.

    Attributes:
        tile: The tile.
        source: What they are made of.
        team: The threads.
    """

    tile: Tile
    source: Computed
    team: Team

    @property
    def kinds(self) -> list[ir.Type]:
        """The types of what is held between the loads and the stores."""
        each: list[ir.Type] = [read.kind for read in self._reads(_FIRST)]
        return each * -(-self.tile.shape[0] * self.tile.shape[1] // (self.width * self.team.count))

    def begin(self) -> list[ir.Value]:
        """Emits the loads. Returns what is held."""
        return [read.begin() for piece in self._pieces() for read in self._reads(piece)]

    def finish(self, slot: Index, held: Sequence[ir.Value]) -> None:
        """Emits what makes pieces of what is held, and stores them into a slot, zeros for what is beyond the edges."""
        given = iter(held)
        for piece in self._pieces():
            found: dict[ir.Value, ir.Value] = {}
            for read in self._reads(piece):
                found[read.op.results[0]] = read.finish(next(given))
            elements = self.source.piece(found, self.width)
            if not self._is_plain:
                elements = self._cut(piece, elements)
            staging.for_those(
                self.tile, self.width, piece, lambda piece=piece, elements=elements: self._store(slot, piece, elements)
            )

    @property
    def width(self) -> int:
        """Elements of a piece."""
        return self._width(aligned=self.aligned)

    @property
    def aligned(self) -> bool:
        """Whether pieces are as many bytes as are moved at once, all within the edges or all beyond."""
        return self.source.reading.aligned and self.source.is_whole(self._width(aligned=True))

    def _width(self, *, aligned: bool) -> int:
        return staging.width_of(self.tile, self.source.across, self.team, aligned=aligned)

    def _pieces(self) -> list[Piece]:
        return staging.pieces(self.tile, self.source.across, self.width, self.team)

    def _reads(self, piece: Piece) -> list[Read]:
        return self.source.reads(piece.outer, piece.inner, self.width)

    @property
    def _is_plain(self) -> bool:
        """Whether pieces are loaded at once and stored as they are."""
        (first, *_) = self._reads(_FIRST)
        return first.at_once and first.op.results[0] == self.source.made

    def _cut(self, piece: Piece, elements: ir.Value) -> ir.Value:
        """A piece with zeros beyond the edges. Of whole rows of pieces it is all within, or all beyond."""
        extents, across = self.source.extents(), self.source.across
        outer = less(piece.outer, extents[1 - across])
        if self.aligned:
            inside = arith.andi(outer, less(piece.inner, extents[across]))
            return arith.select(inside, elements, zero(elements.type))
        nothing = zero(ir.VectorType(elements.type).element_type)
        cut = [
            arith.select(
                arith.andi(outer, less(add(piece.inner, each), extents[across])),
                vector.extract(elements, [], [each]),
                nothing,
            )
            for each in range(self.width)
        ]
        return vector.from_elements(elements.type, cut)

    def _store(self, slot: Index, piece: Piece, elements: ir.Value) -> None:
        """Stores a piece: at once, where it lies in shared memory along a row."""
        if self.tile.swapped == (self.source.across == 0):
            size = bits_of(ir.VectorType(elements.type).element_type)
            at = self.tile.of_rows(slot, piece.outer, piece.inner)
            vector.store(elements, self.tile.buffer, at, alignment=self.width * size // 8)
            return
        for each in range(self.width):
            at = self.tile.of_rows(slot, add(piece.inner, each), piece.outer)
            memref.store(vector.extract(elements, [], [each]), self.tile.buffer, at)


def begin(fillings: Sequence[Filling]) -> list[ir.Value]:
    """Emits the loads of several tiles. Returns what is held."""
    return [held for filling in fillings for held in filling.begin()]


def finish(fillings: Sequence[Filling], slot: Index, held: Sequence[ir.Value]) -> None:
    """Emits what stores the tiles into a slot, of what is held."""
    start = 0
    for filling in fillings:
        count = len(filling.kinds)
        filling.finish(slot, held[start : start + count])
        start += count
