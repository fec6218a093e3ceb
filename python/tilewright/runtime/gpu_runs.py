# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the products of a call of a GPU's kernel on this machine: in the emulator, or on a Vulkan device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.runtime import fiber_calls, gpu_passes, shader_calls
from tilewright.runtime.gpu_call import Array, Called

if TYPE_CHECKING:
    from tilewright.runtime.card_calls import CardKernel


def run(kernel: CardKernel, called: Called, arrays: Sequence[Array], seed: int) -> None:
    """Runs them, one after the other; `arrays` are the operands, which fit, and the result."""
    call = shader_calls.call if kernel.target.family == "vulkan" else fiber_calls.call
    for product, own in gpu_passes.products(called, arrays):
        call(kernel, product, own, seed)
