# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands whose matrix is not in memory as it is multiplied: threads compute where each piece of it lies.

Rows of a table are such an operand (`gathered_rows`), and the patches of images (`patches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tilewright.build.index import Index, add
from tilewright.build.usedef import defined_by
from tilewright.build.views import offsets_of
from tilewright.codegen.gpu import staging
from tilewright.mlir import ir

Of = Callable[[ir.Value], ir.Value]
"""Gives the value of a thread for one of the block."""


class Pieces(staging.Source, Protocol):
    """A block's view of such an operand, by pieces of neighbors along its last axis."""

    def place(self, outer: Index, inner: Index, width: int) -> tuple[ir.Value, list[ir.Value]]:
        """What the piece of `width` elements from a place of the view on is loaded from, and where; inside of it in any case."""
        ...

    def exists(self, outer: Index, inner: Index) -> ir.Value:
        """Whether the view has an element at a place; if not, zero stands for it."""
        ...


class Scattered(Protocol):
    """Such an operand."""

    def is_whole(self, width: int) -> bool:
        """Whether pieces of so many neighbors, at multiples of as many, are neighbors in memory, all there or none."""
        ...

    def source(self, view: ir.Value, of: Of, extents: Sequence[Index]) -> Pieces:
        """What a block's view of the operand stands for; `extents` say how far it goes."""
        ...


def start(view: ir.Value, axis: int, of: Of) -> Index:
    """Where a block's view starts in the matrix of its operand, along axis 0 or 1."""
    subview = defined_by(view, "memref.subview")
    if subview is None:
        return 0
    offset = offsets_of(subview)[axis - 2]  # Axes of a batch come first.
    return add(start(subview.operands[0], axis, of), offset if isinstance(offset, int) else of(offset))
