# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which products `strips` makes the loops of, apart from how: what only chooses must not import MLIR."""

from __future__ import annotations

from tilewright.spec import MatmulSpec


def takes(spec: MatmulSpec) -> bool:
    """Whether `strips.strips` makes the loops of a product: of rows as they are stored, to the sums of which nothing is done."""
    plain = not (spec.has_entries or spec.fused or spec.batch or spec.a_transposed or spec.b_transposed)
    return bool(spec.dynamic) and spec.m != 1 and plain
