# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: That of the README
# group: start
# shape: 512x512x512
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        tile = steps.match(script.root, "linalg.matmul")
        for tile_sizes in ([4, 0, 0], [0, 2 * target.lanes(spec.acc_type), 0], [0, 0, 1]):
            tile, _loop = steps.tile(tile, tile_sizes)
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
        steps.start_from_zero(script.functions)
    return script.module
