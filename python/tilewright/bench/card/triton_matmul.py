# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products in Triton, a peer: persistent kernels with tiles in bands and TMA copies.

Triton's own division of warps into copying and multiplying ones is not asked for: kernels with it (3.6.0, on an H200) never ended.
"""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def _place(tile, down, across, BAND: tl.constexpr):  # noqa: ANN001, ANN202 - a function of a kernel
    band = tile // (BAND * across)
    height = tl.minimum(down - band * BAND, BAND)
    return band * BAND + tile % (BAND * across) % height, tile % (BAND * across) // height


@triton.jit(do_not_specialize=["m"])
def matmul(  # noqa: ANN201 - a kernel
    a,  # noqa: ANN001 - boxes of BM x BK elements of M x K
    b,  # noqa: ANN001 - boxes of BK x BN of K x N, or, ALONG_K, of BN x BK of N x K
    c,  # noqa: ANN001 - boxes of BM x BN/PARTS of M x N
    m,  # noqa: ANN001
    n,  # noqa: ANN001
    k,  # noqa: ANN001
    WHOLE: tl.constexpr,
    ALONG_K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    BAND: tl.constexpr,
    PARTS: tl.constexpr,
):
    """C = A·B, tile after tile."""
    kind = tl.int32 if WHOLE else tl.float32
    down, across, steps = tl.cdiv(m, BM), tl.cdiv(n, BN), tl.cdiv(k, BK)
    first, blocks = tl.program_id(0), tl.num_programs(0)
    for tile in tl.range(first, down * across, blocks, flatten=True):
        row, column = _place(tile, down, across, BAND)
        sums = tl.zeros((BM, BN), dtype=kind)
        for step in range(steps):
            left = a.load([row * BM, step * BK])
            if ALONG_K:  # noqa: SIM108 - a branch of the compiler
                right = b.load([column * BN, step * BK]).T
            else:
                right = b.load([step * BK, column * BN])
            sums = tl.dot(left, right, sums, out_dtype=kind)
        if PARTS == 2:
            halves = tl.permute(tl.reshape(sums, (BM, 2, BN // 2)), (0, 2, 1))
            low, high = tl.split(halves)
            c.store([row * BM, column * BN], low.to(c.dtype))
            c.store([row * BM, column * BN + BN // 2], high.to(c.dtype))
        else:
            c.store([row * BM, column * BN], sums.to(c.dtype))
