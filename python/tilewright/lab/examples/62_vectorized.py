# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 3. Vectors
# group: lessons
# shape: 512x480x512
# Lesson 3. The innermost tile is one vector of C, which becomes vector ops and stays in a register for all of K.
# A multiply-add now does as many products as a register has lanes, but each waits for the one before: see how few percent of
# the multiply-add bound that is, and the latency in Hot loop.
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        tile, *_loops = steps.tile(matmul, [1, lanes, 0])
        tile, *_loops = steps.tile(tile, [0, 0, 1])
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
        steps.start_from_zero(script.functions)
    return script.module
