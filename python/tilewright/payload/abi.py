# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of a kernel, apart from how it is made: what only loads or declares kernels must not import MLIR."""

from __future__ import annotations

ENTRY = "matmul"
"""Name of the payload's function, and of the C entry made from it where no other is asked for."""

OK, WRONG_EXTENTS, OUT_OF_MEMORY, WRONG_PACKING = 0, 1, 2, 3
"""What the entry returns."""

PROTOTYPE = (
    "int32_t {name}(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, "
    "void *c, int64_t ldc)"
)
"""The C entry: leading dimensions in elements; returns 0, or 1 when the extents are not those compiled for, or 2 when
there is no memory for the workspace. With `b_packed`, `b` is what the entry below packed, `ldb` means nothing, and 3 is
returned when it was packed in another format."""

PACK_SUFFIX = "_pack_b"
PACKED_BYTES_SUFFIX = "_packed_b_bytes"
PACK_PROTOTYPES = (
    f"int32_t {{name}}{PACK_SUFFIX}(int64_t k, int64_t n, const void *b, int64_t ldb, void *packed)",
    f"int64_t {{name}}{PACKED_BYTES_SUFFIX}(int64_t k, int64_t n)",
)
"""The entries of a kernel with `b_packed`: packs B, a row-major matrix, and returns 0, or 1 when the extents are not those
compiled for; and how many bytes `packed` takes, or -1 when they are not."""
