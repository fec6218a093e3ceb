# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which products `strips` makes the loops of, apart from how: what only chooses must not import MLIR."""

from __future__ import annotations

from tilewright.dims import most
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_FEW_ROWS = 16
"""Rows up to which all of A and the sums of all columns are staged at once where extents are known and a core waits for L2: with more
rows, lines of these and of B are in more pages than the first level of its TLB knows. Measured on Cascade Lake, staged for one strip at a
time, in times the speed of all at once: f32 24 x 1024 x 1024 1.44, 28 x 3000 x 768 1.16, 32 x 768 x 3072 1.19, 25 x 1001 x 777 1.13,
17 x 1024 x 1024 1.00, 14 x 1500 x 1500 1.05, 12 rows 0.97; f64 24 x 1024 x 1024 1.09, 32 x 768 x 3072 1.26; u8 by i8 28 x 3000 x 768 1.27,
24 x 1024 x 1024 1.04, 25 x 1001 x 777 0.96."""


def takes(spec: MatmulSpec, target: Target, threads: int = 1) -> bool:
    """Whether `strips.strips` makes the loops of a product: of rows as they are stored, each entry of a batch with its own B.

    Threads of a product whose extents are known share the loop over columns of one staged A.
    """
    computed = spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows
    own = spec.b_axes == spec.batch_axes
    stored = own and not (computed or spec.a_transposed or spec.b_transposed)
    known = target.rows_ahead > 0 and most(spec.m) > _FEW_ROWS and threads == 1
    return stored and spec.m != 1 and (bool(spec.dynamic) or known)
