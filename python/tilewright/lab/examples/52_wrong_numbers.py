# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: Wrong numbers: K padded with ones
# group: broken
# shape: 96x256x300
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        f32 = ir.F32Type.get()
        ones = [ir.FloatAttr.get(f32, value) for value in (1, 1, 0)]
        matmul = steps.match(script.root, "linalg.matmul")
        structured.PadOp(matmul, pad_to_multiple_of=[7], padding_values=ones, padding_dimensions=[2])
    return script.module
