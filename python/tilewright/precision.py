# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of f32 computed from pieces in narrow types: how many pieces, which of their products, and what that loses.

An element x becomes x0 + x1 (+ x2): x0 is x rounded to the narrow type, x1 is x - x0 rounded, x2 is x - x0 - x1. Of the products of two
elements those are computed whose numbers add up to `order` at most. Three pieces of bf16, of eight bits each, hold all 24 bits of an f32.

Source: G. Henry, P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations", IEEE Symposium on Computer Arithmetic, 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.dtypes import dtype
from tilewright.errors import SpecError


@dataclass(frozen=True, slots=True)
class Precision:
    """A way to compute products of f32.

    Attributes:
        name: What `MatmulSpec.precision` says.
        element: The name of the pieces' type.
        pieces: How many an element has.
        order: The largest sum of the numbers, from 0, of two pieces that are multiplied.
    """

    name: str
    element: str
    pieces: int
    order: int

    @property
    def products(self) -> int:
        """Products of pieces for each product of elements."""
        return sum(i + j <= self.order for i in range(self.pieces) for j in range(self.pieces))

    @property
    def entries(self) -> int:
        """Numbers that a packed panel has for an element: its pieces, and the first one once more, with NaN and Inf in it."""
        return self.pieces + 1

    @property
    def roundoff(self) -> float:
        """Unit roundoff of the pieces' type."""
        return dtype(self.element).roundoff or 0.0

    @property
    def spread(self) -> float:
        """The sum of the magnitudes of all products of pieces is at most so many times that of the product."""
        return sum(self._sizes) ** 2

    @property
    def lost(self) -> float:
        """How far the sum of the products that are computed may be from the product, relative to its magnitude."""
        sizes, rest = self._sizes, self._rest
        left_out = sum(
            sizes[i] * sizes[j] for i in range(self.pieces) for j in range(self.pieces) if i + j > self.order
        )
        return left_out + rest + (1 + rest) * rest

    @property
    def _sizes(self) -> list[float]:
        """Each piece is at most so many times as large as the element."""
        return [(1 + self.roundoff) * self.roundoff**number for number in range(self.pieces)]

    @property
    def _rest(self) -> float:
        """What the pieces leave of an element, relative to it."""
        bits = -24
        left = self.roundoff**self.pieces
        return left if left > 2.0**bits else 0.0


PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        row.name: row
        for row in (
            Precision("bf16x3", "bf16", pieces=2, order=1),
            Precision("bf16x6", "bf16", pieces=3, order=2),
            Precision("bf16x9", "bf16", pieces=3, order=4),
        )
    }
)
"""By name."""


def check(name: object, a: str, b: str, acc: str, *, tf32: bool) -> None:
    """Checks a spec's `precision` and `tf32` against the types that it multiplies and sums.

    Raises:
        SpecError: The precision is unknown, the types are not f32, or both are given.
    """
    asked = [word for word, given in ((f"precision {name!r}", name is not None), ("tf32", tf32)) if given]
    if not asked:
        return
    if name is not None and name not in PRECISIONS:
        raise SpecError(asked[0], where="MatmulSpec", expected=f"None, or one of {', '.join(PRECISIONS)}")
    if (a, b) != ("f32", "f32") or (name is not None and acc != "f32"):
        raise SpecError(f"{asked[0]} with A of {a} and B of {b}", where="MatmulSpec", expected="both multiplied as f32")
    if len(asked) > 1:
        raise SpecError(" with ".join(asked), where="MatmulSpec", expected="one of them")
