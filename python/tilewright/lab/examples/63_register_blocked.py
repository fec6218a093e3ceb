# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 4. A tile of C in registers
# group: lessons
# shape: 512x480x512
# Lesson 4. Several rows and vectors of C stay in registers: their multiply-adds do not wait for each other, and each element of A
# and vector of B that is loaded is used several times. Move the sliders: a small tile waits, too large a one spills.
from tilewright.schedules import steps
from tilewright.schedules.steps import knobs


def schedule(spec, target, sizes):
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        rows = knobs.knob("rows", [1, 2, 4, 8, 16], 2)
        columns = knobs.knob("columns", [lanes, 2 * lanes, 3 * lanes], 2 * lanes)
        matmul = steps.match(script.root, "linalg.matmul")
        tile, *_loops = steps.tile(matmul, [rows, columns, 0])
        tile, *_loops = steps.tile(tile, [0, 0, 1])
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
        steps.start_from_zero(script.functions)
    return script.module
