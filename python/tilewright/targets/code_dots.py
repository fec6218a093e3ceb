# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of instructions that multiply codes of four or eight bits, as bytes, by numbers from -127 to 127.

They take codes in a narrower range than all bytes, or any offset of theirs, and so include VPMADDUBSW, whose sums of two products
saturate at 16 bits for others. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (order number 325383):
VPDPBUSD, VPMADDUBSW, VPMADDWD, VPSIGNB. Arm Architecture Reference Manual for A-profile (DDI 0487): SDOT.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.base import Target

DEPTH = 4
"""Products that each lane of the sum, of 32 bits, takes up at once."""


@dataclass(frozen=True, slots=True)
class CodeDot:
    """How codes are multiplied.

    Attributes:
        name: The instruction.
        bits: Width of the register.
        intrinsic: LLVM's name for it.
        features: What a target must have.
        unsigned: Whether codes are taken as numbers from 0 on; otherwise they have signs.
        pairs: LLVM's name for the instruction that adds pairs of 16 bits, where this one leaves sums of two products; "" where it adds
            all four to a sum.
        sign: LLVM's name for the instruction that gives one operand's sign to the other, by which codes of eight bits are multiplied
            as magnitudes; "" where they need not be, or are not.
        takes: Bits of the codes that it multiplies.
    """

    name: str
    bits: int
    intrinsic: str
    features: frozenset[str]
    unsigned: bool = True
    pairs: str = ""
    sign: str = ""
    takes: tuple[int, ...] = (4, 8)


ROWS = (
    CodeDot("vpdpbusd", 512, "llvm.x86.avx512.vpdpbusd.512", frozenset({"avx512vnni"})),
    CodeDot("vpdpbusd", 256, "llvm.x86.avx512.vpdpbusd.256", frozenset({"avxvnni"})),
    CodeDot(
        "vpmaddubsw",
        512,
        "llvm.x86.avx512.pmaddubs.w.512",
        frozenset({"avx512bw"}),
        pairs="llvm.x86.avx512.pmaddw.d.512",
        takes=(4,),
    ),
    CodeDot(
        "vpmaddubsw",
        256,
        "llvm.x86.avx2.pmadd.ub.sw",
        frozenset({"avx2"}),
        pairs="llvm.x86.avx2.pmadd.wd",
        sign="llvm.x86.avx2.psign.b",
    ),
    CodeDot("sdot", 128, "llvm.aarch64.neon.sdot.v4i32.v16i8", frozenset({"dotprod"}), unsigned=False),
)
"""The best first."""


def code_dot(target: Target, lanes: int, bits: int) -> CodeDot | None:
    """How `target` multiplies codes of so many bits, in registers of `lanes` sums; None where it does not."""
    fitting = (row for row in ROWS if row.bits == 32 * lanes and row.features <= target.features and bits in row.takes)
    return next(fitting, None)
