# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of instructions that look 4-bit elements up in a table in one register.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (order number 325383): VPERMW, VPERMD, PSHUFB. The first
two take the lowest bits of an index only, so that words of several elements are indices as they are, once they are shifted. PSHUFB looks
bytes up within 128 bits, and takes an index of a byte, whose upper bits are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.base import Target

CODE_BITS = 4


@dataclass(frozen=True, slots=True)
class Lookup:
    """How elements are looked up.

    Attributes:
        bits: Width of what is looked up, and of an index.
        lanes: Indices in a register.
        intrinsic: LLVM's name for it; it takes the table and the indices.
        features: What a target must have.
    """

    bits: int
    lanes: int
    intrinsic: str
    features: frozenset[str]

    @property
    def ways(self) -> int:
        """Elements of four bits that share an index, as wide as what is looked up."""
        return self.bits // CODE_BITS

    @property
    def block(self) -> int:
        """Elements of four bits in a register."""
        return self.lanes * self.ways


ROWS = (
    Lookup(16, 32, "llvm.x86.avx512.permvar.hi.512", frozenset({"avx512f", "avx512bw"})),
    Lookup(32, 16, "llvm.x86.avx512.permvar.si.512", frozenset({"avx512f"})),
)


BYTES = Lookup(8, 32, "llvm.x86.avx2.pshuf.b", frozenset({"avx2"}))
"""Of bytes, whose indices have one element each."""


def byte_lookup(target: Target) -> Lookup | None:
    """How `target` looks up bytes; None where it cannot."""
    return BYTES if BYTES.features <= target.features else None


def lookup(target: Target, bits: int) -> Lookup | None:
    """How `target` looks up values that are `bits` wide; None where it cannot."""
    fitting = (row for row in ROWS if row.bits == bits and row.features <= target.features)
    return next(fitting, None)
