# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for RISC-V into instructions.

The last ``vsetvli`` sets the element width and the register group (LMUL) of a vector instruction, not the instruction itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.emit.assembly import Block, Syntax

_MEMORY = re.compile(r"-?[\w%()]*\((\w+)\)$")
_FMA = re.compile(r"(vfw?n?macc|vfw?n?msac|vfmadd|vw?macc|vmadd|fn?madd)")
_MULTIPLY = re.compile(r"(vfw?mul|vw?mul|fmul)(?!h)")
_VECTOR = re.compile(r"v\d+$")
_SETTING = re.compile(r"vseti?vli")
_LENGTH = re.compile(r"\be(\d+)\b.*\bm(f?)(\d)\b")
_REGISTER_BITS = 64
"""Bits of a vector register for each ``vscale``."""
_KINDS = (
    ("prefetch", re.compile(r"prefetch")),
    ("branch", re.compile(r"(b(eq|ne|lt|ge|gt|le)\w*|j|jr|ret|jal|jalr|call|tail)$")),
    ("gather", re.compile(r"v[ls][uo]xei")),
    ("broadcast", re.compile(r"(vf?mv\.v\.[xif]|vlse)")),
    ("shuffle", re.compile(r"(vslide|vrgather|vcompress|vmerge|vfmerge)")),
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; the properties are those of `assembly.Instruction`.

    Attributes:
        text: Mnemonic and operands, one space between them, without a comment.
        mnemonic: The mnemonic.
        operands: The operands, the destination first.
        element_bits: Bits of an element of vectors, as was set last; 0 where nothing was.
        group: Registers that vector instructions take as one, as was set last: 0.5 is half of one.
    """

    text: str
    mnemonic: str
    operands: tuple[str, ...]
    element_bits: int = 0
    group: float = 1

    @property
    def destination(self) -> str:
        """The operand that is written; empty without operands."""
        return self.operands[0] if self.operands else ""

    @property
    def memory(self) -> str | None:
        """The memory operand that is accessed, or None; one that is only hinted at is none."""
        if self.mnemonic.startswith("prefetch"):
            return None
        return next((operand for operand in self.operands[1:] if _MEMORY.match(operand)), None)

    @property
    def base(self) -> str | None:
        """The base register of the memory operand ("sp"), or None."""
        found = _MEMORY.match(self.memory or "")
        return found.group(1) if found else None

    @property
    def writes_memory(self) -> bool:
        """Whether it stores."""
        return self.memory is not None and self.mnemonic.startswith(("s", "fs", "vs"))

    @property
    def reads_memory(self) -> bool:
        """Whether it loads."""
        return self.memory is not None and not self.writes_memory

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops: the instructions that kernels use have none that do."""
        return False

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.mnemonic in ("call", "jal", "jalr")

    @property
    def fma(self) -> bool:
        """Whether it multiplies floats or vectors and adds the products to sums."""
        return _FMA.match(self.mnemonic) is not None

    @property
    def multiply(self) -> bool:
        """Whether it multiplies floats or vectors, and leaves the addition to another instruction."""
        return _MULTIPLY.match(self.mnemonic) is not None

    @property
    def tile_product(self) -> bool:
        """Whether it multiplies tiles: RISC-V has none."""
        return False

    @property
    def products(self) -> int:
        """Products of two elements that it computes to be summed; of scalable vectors, as if ``vscale`` were 1."""
        return self.lanes if self.fma or self.multiply else 0

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar; of vectors, as if ``vscale`` were 1."""
        if not self.is_vector or not self.element_bits:
            return 1
        return max(1, int(_REGISTER_BITS * self.group) // self.element_bits)

    @property
    def is_vector(self) -> bool:
        """Whether it has a vector register as an operand."""
        return any(_VECTOR.match(operand) for operand in self.operands)

    @property
    def category(self) -> str:
        """One of `CATEGORIES`: what it is there for."""
        if self.fma or self.multiply or self.mnemonic in ("vfadd.vv", "fadd.s", "fadd.d"):
            return "multiply-add"
        for kind, pattern in _KINDS:
            if pattern.match(self.mnemonic):
                return kind
        if not self.is_vector:
            return "scalar"
        return "store" if self.writes_memory else "load" if self.reads_memory else "vector"


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


def frame(blocks: Sequence[Block]) -> set[str]:
    """sp, and the frame pointer when the function sets it from it."""
    sets = any(
        each.mnemonic in ("addi", "mv") and each.operands[:2] == ("s0", "sp")
        for block in blocks
        for each in block.instructions
    )
    return {"sp", "s0"} if sets else {"sp"}


SYNTAX = Syntax(
    comment="#",
    read=read,
    leaves=re.compile(r"(b(eq|ne|lt|ge|gt|le)\w*|j|jr|ret|tail)$"),
    always=re.compile(r"(j|jr|ret|tail)$"),
    frame=frame,
    sets=_SETTING,
)
"""How RISC-V's assembly is read."""
