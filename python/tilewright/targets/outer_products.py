# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of SME's outer products, by element types.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), part "Scalable Matrix Extension": FMOPA, BFMOPA, SMOPA,
UMOPA, USMOPA, SUMOPA, and the tiles of ZA: four of 32-bit elements, eight of 64-bit ones.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

_LEAST_BITS = 128
_MOST_BITS = 2048


@dataclass(frozen=True, slots=True)
class OuterProduct:
    """How products of two element types are added to tiles.

    A vector of A has a group of `depth` elements of each of as many rows as it has words; one of B of as many columns. Their
    outer product adds to each sum of a tile the product of one group of A by one of B.

    Attributes:
        name: The instruction.
        op: Upstream's op for it, of dialect arm_sme.
        operands: The element types (A, B).
        features: What a target must have, in LLVM's spelling.
        word: Bits of a sum, and of a group.
        depth: Elements of a group.
        down: Tiles of a block of C one below the other.
        across: Tiles side by side; with `down`, all that ZA has.
    """

    name: str
    op: str
    operands: tuple[str, str]
    features: frozenset[str]
    word: int = 32
    depth: int = 1
    down: int = 2
    across: int = 2

    def lanes(self, bits: int = _LEAST_BITS) -> int:
        """Words in a streaming vector of `bits` bits; by default of the shortest, of which others are multiples."""
        return bits // self.word

    @property
    def most_rows(self) -> int:
        """Rows, and as many columns, of which every streaming vector length makes whole blocks of tiles."""
        return max(self.down, self.across) * self.lanes(_MOST_BITS)


def _row(name: str, op: str, a: str, b: str, depth: int) -> OuterProduct:
    return OuterProduct(name, op, (a, b), frozenset({"sme"}), depth=depth)


_ROWS = (
    _row("fmopa", "outerproduct", "f32", "f32", 1),
    OuterProduct("fmopa", "outerproduct", ("f64", "f64"), frozenset({"sme", "sme-f64f64"}), word=64, down=2, across=4),
    _row("bfmopa", "fmopa_2way", "bf16", "bf16", 2),
    _row("fmopa", "fmopa_2way", "f16", "f16", 2),
    _row("smopa", "smopa_4way", "i8", "i8", 4),
    _row("umopa", "umopa_4way", "u8", "u8", 4),
    _row("sumopa", "sumopa_4way", "i8", "u8", 4),
    _row("usmopa", "usmopa_4way", "u8", "i8", 4),
)


def of(a: str, b: str, features: Set[str]) -> OuterProduct | None:
    """The row for elements of types `a` and `b` on a target with `features`; None where there is none."""
    return next((row for row in _ROWS if row.operands == (a, b) and row.features <= features), None)
