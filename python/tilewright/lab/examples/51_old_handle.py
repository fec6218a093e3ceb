# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: A handle that is gone
# group: broken
# shape: 512x480x512
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        steps.tile(matmul, [4, 0, 0])
        steps.tile(matmul, [0, 48, 0])  # the step above gave a handle of what it left
    return script.module
