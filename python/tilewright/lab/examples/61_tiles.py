# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 2. Tiles that stay in a cache
# group: lessons
# shape: 576x576x576
"""Lesson 2: tiles, so that what is read again is still in a cache.

Before, all of B passes for every row of C. After, three blocks of 64 x 64 elements, 48 KiB in f32, are used 64 times each:

    for i by 64: for j by 64: for k by 64:
      C[i:i+64, j:j+64] += A[i:i+64, k:k+64] * B[k:k+64, j:j+64]
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps

TILE = 64


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Cuts the product along each of its dimensions."""
    with steps.script() as script:
        tile = steps.match(script.root, "linalg.matmul")
        for cut in ([TILE, 0, 0], [0, TILE, 0], [0, 0, TILE]):
            tile, _loop = steps.tile(tile, cut)
    return script.module
