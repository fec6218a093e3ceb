# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The constants with which attention computes its weights, for the code and for the error bound."""

from __future__ import annotations

from collections.abc import Mapping
from math import e, log2
from types import MappingProxyType

LOG2_E = log2(e)
LOWEST = -3.4028234663852886e38
"""The lowest number of f32, where running maxima start: a difference from it is never NaN, as one from -Inf would be."""

EXP2: Mapping[int, tuple[float, ...]] = MappingProxyType(
    {
        3: (1.0, 0.6932829022407532, 0.2422109693288803, 0.05500893294811249),
        5: (
            1.0,
            0.6931470036506653,
            0.24022242426872253,
            0.05550733581185341,
            0.009671512991189957,
            0.001326472731307149,
        ),
    }
)
"""By degree, coefficients of polynomials for 2**x, |x| <= 1/2: minimax fits of the relative error (Lawson's iteration), 1 at 0."""

EXP2_FLOOR = (1.0, 0.6951168244987767, 0.22764482202735709, 0.07706719733037586)
"""The same for 2**x, 0 <= x < 1, of degree 3: its relative error is below that of `EXP2`."""

EXP2_ERROR: Mapping[int, float] = MappingProxyType({3: 1.1e-4, 5: 2.5e-7})
"""Their relative errors in f32, at most, with the rounding of their evaluation."""

DEGREE: Mapping[str, int] = MappingProxyType({"bf16": 3, "f32": 5})
"""The degree for weights that are multiplied as that type: those of bf16 are rounded with an error of 2**-9 anyway."""
