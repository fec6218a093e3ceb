# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which products `strips` makes the loops of, apart from how: what only chooses must not import MLIR."""

from __future__ import annotations

from tilewright.spec import MatmulSpec


def takes(spec: MatmulSpec) -> bool:
    """Whether `strips.strips` makes the loops of a product: of rows as they are stored, each entry of a batch with its own B."""
    computed = spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows
    own = spec.b_axes == spec.batch_axes
    return bool(spec.dynamic) and spec.m != 1 and own and not (computed or spec.a_transposed or spec.b_transposed)
