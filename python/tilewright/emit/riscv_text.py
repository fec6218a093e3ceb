# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for RISC-V into instructions.

The last ``vsetvli`` sets the element width and the register group (LMUL) of a vector instruction, not the instruction itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.emit import assembly

_LENGTH = re.compile(r"\be(\d+)\b.*\bm(f?)(\d)\b")
_REGISTER_BITS = 64
"""Bits of a vector register for each ``vscale``."""


@dataclass(frozen=True, slots=True)
class Instruction(assembly.Instruction):
    """One instruction; the destination is the first operand."""

    hints = ("prefetch",)
    address = re.compile(r"^-?[\w%()]*\((\w+)\)$")
    stores = ("s", "fs", "vs")
    called = re.compile(r"(call|jalr?)$")
    fused = re.compile(r"(vfw?n?macc|vfw?n?msac|vfmadd|vw?macc|vmadd|fn?madd)")
    multiplies = re.compile(r"(vfw?mul|vw?mul|fmul)(?!h)")
    adds = re.compile(r"(vfadd\.vv|fadd\.[sd])$")
    vectors = re.compile(r"v\d+$")
    kinds = (
        ("prefetch", re.compile(r"prefetch")),
        ("branch", re.compile(r"(b(eq|ne|lt|ge|gt|le)\w*|j|jr|ret|jal|jalr|call|tail)$")),
        ("gather", re.compile(r"v[ls][uo]xei")),
        ("broadcast", re.compile(r"(vf?mv\.v\.[xif]|vlse)")),
        ("shuffle", re.compile(r"(vslide|vrgather|vcompress|vmerge|vfmerge)")),
    )

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar; of vectors, as if ``vscale`` were 1."""
        if not self.is_vector or not self.element_bits:
            return 1
        return max(1, int(_REGISTER_BITS * self.group) // self.element_bits)


def read(line: str, setting: str) -> Instruction:
    """Reads one instruction; `line` has no comment and no label, `setting` is the last ``vsetvli`` before it, or empty."""
    mnemonic, _, rest = line.replace("\t", " ").partition(" ")
    operands = tuple(part.strip() for part in rest.split(",")) if rest.strip() else ()
    bits, group = length(setting)
    return Instruction(f"{mnemonic} {', '.join(operands)}".strip(), mnemonic, operands, bits, group)


def length(setting: str) -> tuple[int, float]:
    """The bits of an element, and the registers taken as one, that a ``vsetvli`` sets; 0 and 1 for anything else."""
    found = _LENGTH.search(setting)
    if found is None:
        return 0, 1
    bits, fraction, count = found.groups()
    return int(bits), 1 / int(count) if fraction else int(count)


SYNTAX = assembly.Syntax(
    comment="#",
    read=read,
    leaves=re.compile(r"(b(eq|ne|lt|ge|gt|le)\w*|j|jr|ret|tail)$"),
    always=re.compile(r"(j|jr|ret|tail)$"),
    stack="sp",
    frames=frozenset({"s0"}),
    copies=frozenset({"addi", "mv"}),
    sets=re.compile(r"vseti?vli"),
)
"""How RISC-V's assembly is read."""
