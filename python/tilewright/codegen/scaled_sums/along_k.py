# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights that lie side by side along K: sums of codes, scaled once a group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilewright.build.index import Index, add, value
from tilewright.build.vectors import read
from tilewright.codegen.scaled_sums.along_k_vectors import Along, along
from tilewright.codegen.scaled_sums.columns import Columns
from tilewright.codegen.scaled_sums.rounded_along_k import RoundedAlongK
from tilewright.codegen.scaled_sums.rounded_columns import RoundedColumns
from tilewright.codegen.scaled_sums.streams import Streams
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector
from tilewright.schedules.decisions import ScaledSums
from tilewright.schedules.models import scaled_blocks
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_CHAINS = 4
"""Sums that a block is added to in turn, at least, over all rows and columns: the latency of a multiply-add."""


def write_along_k(
    spec: MatmulSpec,
    target: Target,
    sizes: ScaledSums,
    a: ir.Value,
    codes: ir.Value,
    further: Sequence[ir.Value],
    c: ir.Value,
    *,
    fresh: bool,
) -> None:
    """Writes the loops of a product, in vectors of columns or along K, as its sizes say."""
    rounds = scaled_blocks.rounds(spec, target)
    columns, streams = (RoundedColumns, RoundedAlongK) if rounds else (Columns, AlongK)
    kind = columns if scaled_blocks.in_columns(sizes, target) else streams
    kind(spec, target, sizes, a, codes, further, c, fresh=fresh).write()


class AlongK(Streams):
    """The operands of a product, and how it is computed."""

    def _blocks(self, target: Target, a: ir.Value) -> Along:
        self._vectors = along(self._how, self._spec, target, a)
        return self._vectors

    def _block(self, j: ir.Value, k: Index, rows: range, totals: list[ir.Value], *, inside: bool) -> list[ir.Value]:
        """The totals and the products of a block of codes of each stream by some rows."""
        streams = self._streams
        chains = max(1, _CHAINS // len(totals))
        used = self._vectors.registers
        if not inside and self._vectors.in_order:  # Beyond K there are no groups.
            used = -(-(self._spec.k % self._vectors.block) // self._lanes)
        elements = [self._elements(q, j, k, used, inside=inside) for q in range(streams)]
        for part in self._alike(used):
            sums: list[list[ir.Value | None]] = [[None] * chains for _ in totals]
            for number, register in enumerate(part):
                for i, row in enumerate(rows):
                    for left, right in self._vectors.lefts(row, k, register):
                        for q in range(streams):
                            each = sums[i * streams + q]
                            at = number % chains
                            each[at] = self._vectors.add(each[at], left, elements[q][register][right])
            for q in range(streams):
                scale = self._scales(q, j, k, part[0]) if self._how.group else None
                for i in range(len(rows)):
                    first, *others = [each for each in sums[i * streams + q] if each is not None]
                    for each in others:
                        first = arith.addf(first, each)
                    total = totals[i * streams + q]
                    added = arith.addf(total, first) if scale is None else vector.fma(first, scale, total)
                    totals[i * streams + q] = added
        return totals

    def _alike(self, used: int) -> list[range]:
        """The registers of a block that are used, in parts that have the same scales."""
        group = self._how.group
        size = max(1, min(used, group // self._lanes)) if group and self._vectors.in_order else used
        return [range(start, min(start + size, used)) for start in range(0, used, size)]

    def _elements(self, q: int, j: ir.Value, k: Index, used: int, *, inside: bool) -> list[Sequence[ir.Value]]:
        """What stands for the codes of a column."""
        column = self._column(q, j)
        if inside:
            self._prefetch(k, column)

        def of_column(_row: int, start: int, count: int) -> ir.Value:
            return read(self._codes, [add(k, start), column], count, inside=inside, along=0)

        if self._zero_points is None:
            return self._vectors.elements(of_column, None)
        if self._vectors.one_zero:
            at = [self._group(k, 0), column] if self._how.group else [column]
            return self._vectors.elements(of_column, memref.load(self._zero_points, [value(each) for each in at]))
        of = partial(self._of_lanes, self._zero_points, 1, q, j, k)
        return self._vectors.elements(
            of_column, [of(min(register, used - 1)) for register in range(self._vectors.registers)]
        )
