# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A matrix product in Triton, tuned by its own autotuner over the sizes that its users try: the peer."""

from __future__ import annotations

from typing import Any

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

_SIZES = (
    *((128, 256, 64, 3, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 64, 4, 8), (64, 256, 64, 4, 4)),
    *(
        (128, 64, 64, 4, 4),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 5, 4),
        (16, 128, 128, 5, 4),
        (16, 64, 128, 5, 4),
        (32, 128, 128, 4, 4),
    ),
)
"""Rows, columns and depth of a tile, stages, warps."""


@triton.autotune(
    configs=[
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "BAND": 8}, num_stages=stages, num_warps=warps)
        for bm, bn, bk, stages, warps in _SIZES
    ],
    key=["m", "n", "k", "a_down", "b_down"],
)
@triton.jit
def _matmul(  # noqa: ANN202 - a kernel
    a,  # noqa: ANN001
    b,  # noqa: ANN001
    c,  # noqa: ANN001
    m,  # noqa: ANN001
    n,  # noqa: ANN001
    k,  # noqa: ANN001
    a_down,  # noqa: ANN001
    a_right,  # noqa: ANN001
    b_down,  # noqa: ANN001
    b_right,  # noqa: ANN001
    c_down,  # noqa: ANN001
    WHOLE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    BAND: tl.constexpr,
):
    tile = tl.program_id(0)
    down, across = tl.cdiv(m, BM), tl.cdiv(n, BN)
    band = tile // (BAND * across)
    height = tl.minimum(down - band * BAND, BAND)
    row = band * BAND + tile % (BAND * across) % height
    column = tile % (BAND * across) // height
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    at_a = a + (rows % m)[:, None].to(tl.int64) * a_down + depth[None, :] * a_right
    at_b = b + depth[:, None] * b_down + (columns % n)[None, :].to(tl.int64) * b_right
    sums = tl.zeros((BM, BN), dtype=tl.int32 if WHOLE else tl.float32)
    for step in range(tl.cdiv(k, BK)):
        inside = depth < k - step * BK
        left = tl.load(at_a, mask=inside[None, :], other=0)
        right = tl.load(at_b, mask=inside[:, None], other=0)
        sums = tl.dot(left, right, sums, out_dtype=tl.int32 if WHOLE else tl.float32)
        at_a += BK * a_right
        at_b += BK * b_down
    to = c + rows[:, None].to(tl.int64) * c_down + columns[None, :]
    tl.store(to, sums.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def multiply(a: Any, b: Any, c: Any) -> None:  # noqa: ANN401 - torch's tensors
    """Writes the product of A (m x k) and B (k x n), however they are stored, to C, whose rows have adjacent elements."""
    (m, k), n = a.shape, b.shape[1]
    whole = not a.dtype.is_floating_point
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731 - as Triton wants it
    kernel: Any = _matmul
    kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), c.stride(0), WHOLE=whole)
