# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for AArch64 into instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.emit.assembly import Block, Syntax

_BASE = re.compile(r"\[(\w+)")
_FMA = re.compile(r"(fml[as]|ml[as]|[su]mlal|fmlal|fmadd)")
_MULTIPLY = re.compile(r"f?mul$")
# Products that one sum takes up at once.
_DOTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("sdot", "udot", "usdot", "sudot"), 4),
        "bfdot": 2,
        **dict.fromkeys(("smmla", "ummla", "usmmla"), 8),
        "bfmmla": 4,
    }
)
# What SME adds to tiles of ZA.
_OUTER = re.compile(r"(b?f|s|u|su|us)mopa$")
_VECTOR = re.compile(r"\{?\s*([vzqdshb])(\d+)(?:\.(\d*)([bhsd]))?")
_BITS: Mapping[str, int] = MappingProxyType({"b": 8, "h": 16, "s": 32, "d": 64})
_REGISTER_BITS = 128
_KINDS = (
    ("prefetch", re.compile(r"prfm|prfum")),
    ("branch", re.compile(r"b(\.|$)|bl|br|cbn?z|tbn?z|ret")),
    ("broadcast", re.compile(r"ld1r|dup")),
    ("shuffle", re.compile(r"zip|uzp|trn|ext$|tbl|tbx|ins$|rev")),
    ("store", re.compile(r"st")),
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; the properties are those of `assembly.Instruction`.

    Attributes:
        text: Mnemonic and operands, one space between them, without a comment.
        mnemonic: The mnemonic.
        operands: The operands, the destination first.
    """

    text: str
    mnemonic: str
    operands: tuple[str, ...]

    @property
    def destination(self) -> str:
        """The operand that is written; empty without operands."""
        return self.operands[0] if self.operands else ""

    @property
    def memory(self) -> str | None:
        """The memory operand that is accessed, or None; one that is only hinted at is none."""
        if self.mnemonic.startswith("prf"):
            return None
        return next((operand for operand in self.operands if operand.startswith("[")), None)

    @property
    def base(self) -> str | None:
        """The base register of the memory operand ("sp"), or None."""
        found = _BASE.match(self.memory or "")
        return found.group(1) if found else None

    @property
    def writes_memory(self) -> bool:
        """Whether it stores."""
        return self.memory is not None and self.mnemonic.startswith("st")

    @property
    def reads_memory(self) -> bool:
        """Whether it loads."""
        return self.memory is not None and not self.writes_memory

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops: AArch64 has no such instruction."""
        return False

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.mnemonic in ("bl", "blr")

    @property
    def fma(self) -> bool:
        """Whether it multiplies floats or vectors and adds the products to sums."""
        return _FMA.match(self.mnemonic) is not None or self.mnemonic in _DOTS

    @property
    def multiply(self) -> bool:
        """Whether it multiplies floats or vectors, and leaves the addition to another instruction."""
        return _MULTIPLY.match(self.mnemonic) is not None and _VECTOR.match(self.destination) is not None

    @property
    def tile_product(self) -> bool:
        """Whether it adds an outer product to a tile of ZA."""
        return _OUTER.match(self.mnemonic) is not None

    @property
    def by_lane(self) -> bool:
        """Whether it takes one element, or group of elements, of its last register for all lanes."""
        return bool(self.operands) and self.operands[-1].endswith("]") and not self.operands[-1].startswith("[")

    @property
    def products(self) -> int:
        """Products of two elements that it computes to be summed; of scalable vectors, as if they had 128 bits."""
        if self.tile_product:
            sum_bits, bits = (_BITS[each[-1]] for each in (self.destination, self.operands[-1]))
            return (_REGISTER_BITS // sum_bits) ** 2 * (sum_bits // bits)
        return self.lanes * _DOTS.get(self.mnemonic, 1) if self.fma or self.multiply else 0

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar; of a scalable vector, those of 128 bits."""
        found = _VECTOR.match(self.destination)
        if found is None or found[4] is None:
            return 1
        return int(found[3]) if found[3] else _REGISTER_BITS // _BITS[found[4]]

    @property
    def category(self) -> str:
        """One of `CATEGORIES`: what it is there for."""
        if self.fma or self.multiply or self.tile_product or self.mnemonic == "fadd":
            return "multiply-add"
        for kind, pattern in _KINDS:
            if pattern.match(self.mnemonic):
                return kind if kind != "store" or _touches_vectors(self.operands) else "scalar"
        if not _touches_vectors(self.operands):
            return "scalar"
        return "load" if self.reads_memory else "vector"


def _touches_vectors(operands: Sequence[str]) -> bool:
    return any(_VECTOR.match(operand) for operand in operands if not operand.startswith("sp"))


def read(line: str) -> Instruction:
    """Reads one instruction; `line` has no comment and no label."""
    mnemonic, _, rest = line.replace("\t", " ").partition(" ")
    operands = tuple(part.strip() for part in re.split(r",(?![^\[{]*[\]}])", rest)) if rest.strip() else ()
    return Instruction(f"{mnemonic} {', '.join(operands)}".strip(), mnemonic, operands)


def frame(blocks: Sequence[Block]) -> set[str]:
    """sp, and the frame pointer when the function sets it from it."""
    sets = any(
        each.mnemonic in ("mov", "add") and each.operands[:2] == ("x29", "sp")
        for block in blocks
        for each in block.instructions
    )
    return {"sp", "x29"} if sets else {"sp"}


SYNTAX = Syntax(
    comment="//",
    read=lambda line, _: read(line),
    leaves=re.compile(r"(b|b\..*|br|cbn?z|tbn?z|ret|brk)$"),
    always=re.compile(r"(b|br|ret|brk)$"),
    frame=frame,
)
"""How AArch64's assembly is read."""
