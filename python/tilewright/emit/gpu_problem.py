# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says what can be compiled for a GPU, and which strategies do it: products, and convolutions, which are computed as products."""

from __future__ import annotations

from tilewright.codegen.gpu import strategies
from tilewright.emit.gpu_stages import Computed
from tilewright.errors import SpecError
from tilewright.lowering.types import double_functions
from tilewright.payload.conv2d_products import of_launch, reads_patches
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def product(spec: Computed) -> MatmulSpec:
    """The product that a launch computes."""
    return spec if isinstance(spec, MatmulSpec) else of_launch(spec)


def able(spec: Computed, target: GpuTarget) -> list[str]:
    """The strategies that compute `spec` on a target, the best one first."""
    scattered = not isinstance(spec, MatmulSpec) and reads_patches(spec)
    return strategies.able(product(spec), target, scattered=scattered)


def check(spec: Computed, target: GpuTarget) -> None:
    """Raises `SpecError` for what this release does not do on a GPU."""
    if not isinstance(spec, MatmulSpec):
        check(product(spec), target)
        return
    if spec.a_stored.part is not None:
        remedy = "Multiply real matrices of the parts there, or compile for a processor"
        raise SpecError(
            "complex numbers on a GPU are not supported", where=str(spec), expected="real ones", remedy=remedy
        )
    if spec.a_type.is_wide:
        raise SpecError(
            f"A of {spec.a} on a GPU is not supported",
            where=str(spec),
            expected="8-bit integers or floats",
            remedy="Compile for a processor",
        )
    types = {each.type.name for each in (*spec.operands, spec.result)}
    if target.types is not None and not types <= target.types:
        raise SpecError(
            f"elements of {', '.join(sorted(types - target.types))} on {target.name} are not supported yet",
            where=str(spec),
            expected=", ".join(sorted(target.types)),
        )
    if target.least_bits > 8 and double_functions.of(spec):
        expected = "those of f32, or a target with integers of 64 bits"
        raise SpecError(f"functions of f64 on {target.name} are not supported yet", where=str(spec), expected=expected)
    if spec.split:
        remedy = "Compile for a processor, or let tensor cores truncate elements: tf32=True"
        what = f"precision {spec.precision} on a GPU is not supported"
        raise SpecError(what, where=str(spec), expected="None", remedy=remedy)
    if spec.b_packed:  # Of a convolution: its filters.
        remedy = "Let calls take B as it is stored: blocks bring tiles of it to shared memory in their own order"
        raise SpecError("b_packed on a GPU is not supported", where=str(spec), expected="b_packed=False", remedy=remedy)
