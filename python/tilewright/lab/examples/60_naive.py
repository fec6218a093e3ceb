# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 1. The naive loops
# group: lessons
# shape: 512x480x512
# Lesson 1. Three loops, one multiply-add at a time: what the definition of a product says.
# Look at the hot loop: scalar multiplications and additions, and a load of B for each of them.
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        steps.tile(matmul, [1, 1, 1])
    return script.module
