# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: A register tile, with knobs
# group: start
# shape: 512x480x512
from tilewright.schedules import steps
from tilewright.schedules.steps import knobs


def schedule(spec, target, sizes):
    """Tiles of C in registers; `sizes` has those that tilewright would choose."""
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        rows = knobs.knob("rows", [1, 2, 4, 8, 16], 4)
        columns = knobs.knob("columns", [lanes, 2 * lanes, 3 * lanes], 3 * lanes)
        matmul = steps.match(script.root, "linalg.matmul")
        tile, _loop = steps.tile(matmul, [rows, columns, 0])
        tile, _loop = steps.tile(tile, [0, 0, 1])
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
        if spec.beta == 0:
            steps.start_from_zero(script.functions)
    return script.module
