# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights as benchmarks ask for them, checked, and calls of them in a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.bench.suites import Shape
from tilewright.bench.timing import Loop
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.epilogues import dequantize
from tilewright.runtime.trial import Trial
from tilewright.spec import MatmulSpec

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel


def problem(shape: Shape, dtype: str, weights: str, layout: str = "nt", precision: str | None = None) -> MatmulSpec:
    """The product of activations of type `dtype` by weights such as "i4:128": type, group along K, and type of zero points.

    With `precision` "i8" activations may be rounded, as `MatmulSpec` says.

    Scales are of f16, as in GGUF files, whose Q4_0 and Q8_0 are measured beside ours.

    Raises:
        SpecError: `weights` says something else, or it cannot be measured.
    """
    element, group, zero_point = ([*weights.split(":"), "", ""])[:3]
    if weights.count(":") > 2 or not (group or "0").isdecimal() or shape.batch or "," in dtype:
        raise SpecError(
            f"{shape} {dtype} by weights {weights!r}",
            where="bench",
            expected="one type of A, no batch, and weights such as i4, i4:128 or u4:128:u8",
        )
    entry = dequantize("gn" if int(group or 0) else "n", zero_point or 0, int(group or 0), scale_type="f16")
    return MatmulSpec(
        shape.m, shape.n, shape.k, dtype, element, layout=layout, prologue_b=(entry,), precision=precision
    )


def check(trial: Trial) -> float:
    """The relative error of a product.

    Raises:
        TilewrightError: An element is further from the reference than its bound.
    """
    trial()
    found = trial.difference()
    if not found.right:
        raise TilewrightError(f"{trial.spec} is wrong", where="bench", expected="a result within the error bound")
    return found.relative


def calls(kernel: Kernel, least: int) -> Loop:
    """Calls of a kernel, of operands enough to take up so many bytes; each was called once."""
    first = Trial.random(kernel, kernel.spec, 0)
    count = max(1, -(-least // sum(each.nbytes for each in first.inputs)))
    calls = [first, *(Trial.random(kernel, kernel.spec, seed) for seed in range(1, count))]
    for call in calls:
        call()
    return Loop(calls)
