# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a product by a transposed B is computed as its transpose: B as it is stored by A, of which panels are packed.

Tile registers take one operand as rows and the other one in pairs or groups of four elements of a column. Rows of a B that is stored
transposed are tiles as they lie, and so are those of A: the smaller one of both is packed, in the order of columns, and the sums are
transposed in registers before they are written.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tilewright.entries import Epilogue, Operand
from tilewright.schedules.models import lone_panel
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS

_OTHER = {"m": "n", "n": "m"}
_TURN_CYCLES = 100
"""To transpose a KiB of sums in registers."""


def may(spec: MatmulSpec, target: Target) -> bool:
    """Whether strategy `packed` can compute the transpose: of one product of known extents, from zeros, with B read where it lies."""
    if not (spec.b_transposed and target.dot(*spec.multiplied).is_tile) or spec.a_transposed or spec.is_empty:
        return False
    alone = spec.products == 1 and not (spec.has_rows or spec.batch or spec.prologue_a or spec.prologue_b or spec.beta)
    fixed = spec.b_packed or spec.deterministic or spec.dynamic
    return alone and not fixed and spec.n % AMX_ROWS == 0 and lone_panel.may_read_a(turned(spec), target)


def cycles(spec: MatmulSpec) -> float:
    """Cycles that it takes to transpose the sums."""
    return spec.m * spec.n * spec.acc_type.bytes / 1024 * _TURN_CYCLES


@dataclass(frozen=True, slots=True)
class Transpose(MatmulSpec):
    """The spec of the transpose of a product, of which something is always done to the sums: they are transposed."""

    @property
    def fused(self) -> bool:
        """Always."""
        return True

    @property
    def plain_sums(self) -> MatmulSpec:
        """The spec of the sums as they are."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return MatmulSpec(**{**known, "epilogue": (), "c": self.acc, "alpha": 1, "beta": 0})


def turned(spec: MatmulSpec) -> Transpose:
    """The spec of the transpose."""
    known = {each.name: getattr(spec, each.name) for each in fields(spec)}
    layout = "".join("t" if stored == "n" else "n" for stored in reversed(spec.layout))
    entries = tuple(map(_turned_entry, spec.epilogue))
    exchanged = {"m": spec.n, "n": spec.m, "a": spec.b, "b": spec.a, "layout": layout, "epilogue": entries}
    return Transpose(**{**known, **exchanged})


def _turned_entry(entry: Epilogue) -> Epilogue:
    return replace(entry, operands=tuple(map(_turned_operand, entry.operands)))


def _turned_operand(operand: Operand) -> Operand:
    return operand if len(operand.axes) > 1 else replace(operand, axes=_OTHER.get(operand.axes, operand.axes))
