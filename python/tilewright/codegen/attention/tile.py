# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The register tile: rows of broadcast words times vectors of words, summed in f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.index import Index
from tilewright.build.loops import repeat
from tilewright.build.vectors import bits_as, intrinsic
from tilewright.codegen.attention.vectors import Values, Vectors
from tilewright.mlir import ir
from tilewright.schedules.models.online_softmax import Tiling


def multiply_add(vectors: Vectors, tiling: Tiling, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """The sum of `total` and left·right in each lane, of f32 or of pairs of bf16 in i32."""
    if not tiling.pairs:
        return vectors.fma(left, right, total)
    left, right = (bits_as(each, ir.BF16Type.get()) for each in (left, right))
    return intrinsic(tiling.intrinsic, vectors.floats, total, left, right)


def product(
    vectors: Vectors,
    tiling: Tiling,
    steps: Index,
    sums: Sequence[Sequence[ir.Value]],
    left: Callable[[int, ir.Value], ir.Value],
    right: Callable[[ir.Value], Sequence[ir.Value]],
) -> list[Values]:
    """Adds to `sums`, a tile of rows of vectors, the products of `steps` words.

    After::

        for s in 0..steps:
            for each row i, vector c: sums[i][c] += left(i, s) * right(s)[c]

    Args:
        vectors: The vectors.
        tiling: Says what words are.
        steps: How many words each sum has.
        sums: What is added to.
        left: The word of row i in step s, in every lane.
        right: The vectors of step s.
    """
    width = len(sums[0])

    def body(step: ir.Value, *carried: ir.Value) -> Values:
        columns = right(step)
        totals = list(carried)
        for row in range(len(sums)):
            word = left(row, step)
            for column in range(width):
                at = row * width + column
                totals[at] = multiply_add(vectors, tiling, word, columns[column], totals[at])
        return totals

    flat = repeat(steps, 1, body, [each for row in sums for each in row])
    return [flat[row * width : (row + 1) * width] for row in range(len(sums))]
