# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the rows of one head come to shared memory: by copies that go on by themselves, or by each thread's loads and stores."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.constants import bits_of, like
from tilewright.build.index import Index, add
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu_attention.heads import HeadRows
from tilewright.codegen.gpu_attention.multipliers import Products
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, nvvm, vector
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.schedules.models import shared_softmax as model


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a block.

    Attributes:
        q: The queries, as the first operand of the first product.
        k: Keys, as its second operand.
        v: Values, as the second operand of the second product.
        weights: What is multiplied by them; None where that stays in registers.
    """

    q: Bringing
    k: Bringing
    v: Bringing
    weights: staging.Tile | None

    def finish(self) -> None:
        """A thread waits for its copies."""
        if any(each.copied for each in (self.q, self.k, self.v)):
            nvvm.cp_async_wait_group(0)


def of(chain: Chain, sizes: SharedSoftmax, products: Products, team: staging.Team, *, copies: bool) -> Tiles:
    """The tiles for a decision; `copies` says that there are such that go on by themselves, and rows that are aligned for them."""
    element = ir.Type.parse(sizes.multiplied)
    head, value_head = model.padded(sizes, chain.head), model.padded(sizes, chain.value_head)
    multiplier = products.scores  # Of the same kind as that of the results.

    def tile(shape: tuple[int, int], operand: int, across: int) -> staging.Tile:
        swapped = multiplier.is_swapped(operand, element, across)
        return staging.allocate(shape, element, 1, swapped=swapped, swizzled=multiplier.swizzles)

    def brought(shape: tuple[int, int], operand: int, across: int, kind: str) -> Bringing:
        made = tile(shape, operand, across)
        as_it_lies = kind == sizes.multiplied and made.swapped == (across == 0)
        return Bringing(made, across, team, copies and multiplier.copies and as_it_lies)

    return Tiles(
        q=brought((sizes.bm, head), 0, 1, chain.q),
        k=brought((head, sizes.kc), 1, 0, chain.k),
        v=brought((sizes.kc, value_head), 1, 1, chain.v),
        weights=None if products.holds_weights else tile((sizes.bm, sizes.kc), 0, 1),
    )


@dataclass(frozen=True, slots=True)
class Bringing:
    """Some rows of a matrix on their way to a tile.

    Attributes:
        tile: The tile.
        across: The axis of the tile along which elements of a row lie.
        team: The threads of the block.
        copied: Whether copies go on by themselves: elements are not converted, and rows start at multiples of 16 bytes.
    """

    tile: staging.Tile
    across: int
    team: staging.Team
    copied: bool

    def begin(self, source: HeadRows, first: Index) -> None:
        """Brings the rows of a head from `first` on; of what is beyond its extents, zeros. Copies are only begun."""
        if self.copied:
            staging.begin_copies(self.tile, 0, _Rows(source, first, self.across), self.team)
            nvvm.cp_async_commit_group()
            return
        tile = self.tile
        width = staging.width_of(tile, self.across, self.team, aligned=False)
        for piece in staging.pieces(tile, self.across, width, self.team):
            loaded = source.load(add(first, piece.outer), piece.inner, width)
            held = _converted(loaded, ir.MemRefType(tile.buffer.type).element_type)
            staging.for_those(tile, width, piece, lambda piece=piece, held=held: self._store(piece, held, width))

    def _store(self, piece: staging.Piece, held: ir.Value, width: int) -> None:
        tile = self.tile
        if tile.swapped == (self.across == 0):
            size = bits_of(ir.MemRefType(tile.buffer.type).element_type)
            vector.store(held, tile.buffer, tile.of_rows(0, piece.outer, piece.inner), alignment=width * size // 8)
            return
        for each in range(width):
            at = tile.of_rows(0, add(piece.inner, each), piece.outer)
            memref.store(vector.extract(held, [], [each]), tile.buffer, at)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A `staging.Source`: rows of a head from one on."""

    source: HeadRows
    first: Index
    across: int

    def copy(self, tile: staging.Tile, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbors as are inside to the same place; the rest becomes zero."""
        self.source.copy(add(self.first, outer), inner, tile, tile.of_rows(slot, outer, inner), width)


def _converted(held: ir.Value, element: ir.Type) -> ir.Value:
    """A piece as elements of a tile."""
    wide = like(held.type, ir.F32Type.get())
    if ir.VectorType(held.type).element_type == element:
        return held
    held = held if held.type == wide else arith.extf(wide, held)
    return held if element == ir.F32Type.get() else arith.truncf(like(held.type, element), held)
