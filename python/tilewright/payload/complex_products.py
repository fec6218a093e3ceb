# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of complex matrices as products of real ones: the 1m method.

A and C are where they lie matrices of real numbers, M×2K and M×2N, each complex number two of them side by side. B becomes one of
2K×2N, with the block [[re, im], [-im, re]] for each element. Their product is that of the complex matrices, part by part.

Source: F. G. Van Zee, "Implementing High-Performance Complex Matrix Multiplication via the 1m Method", SIAM Journal on Scientific
Computing 42(5), 2020.
"""

from __future__ import annotations

from typing import Any

from tilewright.dims import MAX_EXTENT, Dim
from tilewright.spec import MatmulSpec


def is_complex(spec: MatmulSpec) -> bool:
    """Whether elements are complex numbers."""
    return spec.a_stored.part is not None


def computed(spec: MatmulSpec) -> MatmulSpec:
    """The product that schedules decide on: `spec`, or of a complex one the real product of twice the N and K.

    alpha is part of that B, and C has been multiplied by beta before. So it adds to C, or writes it. Its batch is gone: it is one of the
    matrices.

    Raises:
        SpecError: Twice N or K is no extent.
    """
    if not is_complex(spec):
        return spec
    return MatmulSpec(
        spec.m,
        _twice(spec.n),
        _twice(spec.k),
        a=str(spec.a_stored.part),
        layout=spec.layout.replace("c", "t"),
        beta=int(spec.beta != 0),
        alpha=int(spec.alpha != 0),
        deterministic=spec.deterministic,
    )


def _twice(extent: Any) -> Any:  # noqa: ANN401 - an Extent
    if not isinstance(extent, Dim):
        return 2 * extent
    return Dim(2 * extent.min, min(2 * extent.max, MAX_EXTENT), 2 * extent.multiple)
