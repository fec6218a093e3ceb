# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products computed from fewer bits than elements have: from pieces of f32 in narrow types, or of A rounded to 8-bit integers.

An element x becomes x0 + x1 (+ x2): x0 is x rounded to the narrow type, x1 is x - x0 rounded, x2 is x - x0 - x1. Of the products of two
elements those are computed whose numbers add up to `order` at most. Three pieces of bf16, of eight bits each, hold all 24 bits of an f32.

Source: G. Henry, P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations", IEEE Symposium on Computer Arithmetic, 2019.

With "i8", elements of A may be rounded to integers from -127 to 127 with a scale for each group along K, before they are multiplied by
integers that a prologue of B dequantizes. A group is that of B's scales, of `MOST_ROUNDED` elements at most. Its scale is d = most / 127,
with its largest magnitude; an element x becomes d times x / d rounded to the nearest. A group whose magnitudes are all below
`LEAST_ROUNDED` becomes zeros.
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


ROUNDED = "i8"
"""What `MatmulSpec.precision` says where elements of A may be rounded."""
MOST_ROUNDED = 128
"""Elements that share a scale at most: sums of so many products of bytes are exact in f32."""
ROUNDED_TO = 127
LEAST_ROUNDED = 2.0**-110
"""So that 127 over a magnitude is no Inf."""


def rounded_group(group: int) -> int:
    """Elements of A that are rounded with one scale, where so many of B have one; 0: all of a column."""
    return min(group or MOST_ROUNDED, MOST_ROUNDED)


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


_CODES = ("i4", "u4", "i8", "u8")
NAMES = (*PRECISIONS, ROUNDED)
"""What `MatmulSpec.precision` may say."""


def check(name: object, a: str, b: str, acc: str, stored: str, *, tf32: bool) -> None:
    """Checks a spec's `precision` and `tf32` against the types that it multiplies and sums, and that in which B is stored.

    Raises:
        SpecError: The precision is unknown, the types are not those that it is for, or both are given.
    """
    asked = [word for word, given in ((f"precision {name!r}", name is not None), ("tf32", tf32)) if given]
    if not asked:
        return
    if name is not None and name not in NAMES:
        raise SpecError(asked[0], where="MatmulSpec", expected=f"None, or one of {', '.join(NAMES)}")
    if name == ROUNDED and not tf32:
        if dtype(a).kind != "float" or acc != "f32" or stored not in _CODES:
            expected = f"A of floats, by B of {', '.join(_CODES)} that a prologue dequantizes"
            raise SpecError(f"{asked[0]} with A of {a} and B stored as {stored}", where="MatmulSpec", expected=expected)
        return
    if (a, b) != ("f32", "f32") or (name is not None and acc != "f32"):
        raise SpecError(f"{asked[0]} with A of {a} and B of {b}", where="MatmulSpec", expected="both multiplied as f32")
    if len(asked) > 1:
        raise SpecError(" with ".join(asked), where="MatmulSpec", expected="one of them")
