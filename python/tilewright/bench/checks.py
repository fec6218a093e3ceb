# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a contender's product before it is timed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.bench.operands import Operands
from tilewright.dtypes import dtype as dtype_of
from tilewright.errors import TilewrightError
from tilewright.payload.epilogues import cast
from tilewright.payload.reference import error_bound, reference
from tilewright.spec import MatmulSpec


class CheckError(TilewrightError):
    """A contender's result is wrong, so it is not timed."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The product of some operands.

    Attributes:
        product: M×N elements, as float64, or as int64 where it is exact.
        sums: How far a contender's sums may be from it, before they are rounded to a narrower type; M×N elements.
    """

    product: np.ndarray
    sums: np.ndarray
    acc: str

    def bound(self, c: str) -> np.ndarray:
        """How far the product may be when it is given in the type `c`, which can be narrower than the sums or a float of integers."""
        kind = dtype_of(c)
        if c == self.acc or kind.roundoff is None:
            return self.sums
        return self.sums + kind.roundoff * (np.abs(self.product) + self.sums)


def expect(spec: MatmulSpec, given: Operands, product: str = "") -> Expected:
    """The product of operands of the spec's types, and the bound of measuring.md: γ_K·|A||B| and the rounding of the result.

    With an epilogue, its result. `product` is then the type to which a contender rounds the sums before, if it does.
    """
    if not spec.epilogue:
        wide = replace(spec, c=spec.acc, b_packed=False)
    elif product:
        wide = replace(spec, c=product, b_packed=False, epilogue=(cast(product), *spec.epilogue))
    else:
        wide = replace(spec, b_packed=False)
    # They are views as they are multiplied, however they are stored.
    wide = replace(wide, layout="nn")
    every = given.a, given.b, *given.further
    return Expected(reference(wide, *every), error_bound(wide, *every), str(wide.c))


def check(name: str, got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> float:
    """Compares a product with its reference, element by element; all are M×N.

    Returns:
        The relative Frobenius error.

    Raises:
        CheckError: An element is not a number, or further off than `bound`; the message names the worst.
    """
    from tilewright.runtime.trial import Difference

    found = Difference.of(got, expected, bound)
    if not found.right:
        raise CheckError(
            f"{found.wrong} of {found.elements} elements are wrong, the worst C{list(found.place)} = {found.got:.9g}",
            where=name,
            expected=f"{found.expected:.9g} ± {found.bound:.3g}",
            remedy="It was not timed",
        )
    return found.relative
