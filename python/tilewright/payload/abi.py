# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of a kernel, apart from how it is made: what only loads or declares kernels must not import MLIR."""

from __future__ import annotations

ENTRY = "matmul"
"""Name of the payload's function, and of the C entry made from it where no other is asked for."""

OK, WRONG_EXTENTS, OUT_OF_MEMORY = 0, 1, 2
"""What the entry returns."""

PROTOTYPE = (
    "int32_t {name}(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, "
    "void *c, int64_t ldc)"
)
"""The C entry: leading dimensions in elements; returns 0, or 1 when the extents are not those compiled for, or 2 when
there is no memory for the workspace."""
