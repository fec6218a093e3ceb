# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs GPU kernels as shaders, on the first Vulkan device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import OperandError
from tilewright.payload.attention_pass import AttentionPass
from tilewright.runtime import gpu_call, gpu_passes
from tilewright.runtime.vulkan import Shader
from tilewright.spec import MatmulSpec

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages
    from tilewright.runtime.card_calls import CardKernel

_ENTRY = "matmul"
_MOST = 2**31 - 1
"""Elements of an operand."""


def call(kernel: CardKernel, called: MatmulSpec | AttentionPass, arrays: Sequence[Any], seed: int) -> None:
    """Runs the kernel on a Vulkan device, on copies of the operands."""
    form, made = kernel.code(True, lambda stages: {each.strategy: _shader(each) for each in stages.passes})
    # Numbers of rows, which have been checked, fit into words.
    copies = [np.ascontiguousarray(array, np.int32 if array.dtype == np.int64 else None) for array in arrays]
    for array, operand in zip(copies, (*called.operands, called.result), strict=True):
        if array.size > _MOST:
            raise OperandError(
                f"has {array.size} elements",
                operand=operand.name,
                expected=f"at most {_MOST}: shaders count in 32 bits",
            )
    for each in gpu_passes.passes(form, called, copies, gpu_call.aligned_empty):
        given = [np.ascontiguousarray(array) for array in each.arrays]
        layouts = gpu_call.laid_out(each.form.spec, each.spec, given)
        sizes = np.array([number for shape, strides in layouts for number in (*shape, *strides)], np.int32)
        made[each.form.strategy](gpu_call.grid(each.spec, each.form.sizes), [sizes, *given])
        each.arrays[-1][...] = given[-1]
    arrays[-1][...] = copies[-1]


def _shader(stages: GpuStages) -> Shader:
    buffers = len(stages.spec.operands) + 2  # The result, and extents and strides.
    return Shader(stages.object, _ENTRY, buffers, doubles="Float64" in stages.texts["spirv"])
