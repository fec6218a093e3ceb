# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: Tiles that do not divide the extents
# group: broken
# shape: 510x480x512
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        tile, _loop = steps.tile(matmul, [4, 48, 0])
        tile, _loop = steps.tile(tile, [0, 0, 1])
        steps.vectorize(tile)  # 510 rows are no multiple of 4: steps.pad or steps.peel is missing
        steps.keep_accumulators(script.functions, looped=True)
        steps.start_from_zero(script.functions)
    return script.module
