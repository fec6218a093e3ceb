# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for x86-64 (AT&T syntax) into instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.emit.assembly import Block, Syntax

_PREFIXES = frozenset({"lock", "rep", "repe", "repne", "repz", "repnz", "data16", "notrack"})
_BASE = re.compile(r"\((%\w+)?")
_FMA = re.compile(r"vfn?m(add|sub)")
_MULTIPLY = re.compile(r"v?mul[ps][sdh]$")
_ADD = re.compile(r"v?add[ps][sdh]$")
# Products that one lane of 32 bits takes up at once. The first add them to a sum, the second leave that to an addition.
_DOTS: Mapping[str, int] = MappingProxyType(
    {
        **{f"vpdpb{signs}d{saturating}": 4 for signs in ("us", "ss", "su", "uu") for saturating in ("", "s")},
        "vpdpwssd": 2,
        "vpdpwssds": 2,
        "vdpbf16ps": 2,
    }
)
_DOT_MULTIPLIES: Mapping[str, int] = MappingProxyType({"vpmaddwd": 2, "pmaddwd": 2})
_TILE_PRODUCT = re.compile(r"tdp(b[su][su]d|bf16ps|fp16ps)$")
_TILE_ROWS = 16
_SCALAR_FLOAT = re.compile(r"s[sdh]$")
_VECTOR_REGISTER = re.compile(r"%([xyzt]mm|k)\d")
_STACK_OPERATION = re.compile(r"(push|pop)f?[qw]?$")
_READS_DESTINATION = ("cmp", "test", "ucomis", "comis", "vucomis", "vcomis", "bt", "call", "jmp", "push", "ldtilecfg")
_ONLY_WRITES = re.compile(r"v?p?k?(mov|maskmov|extract|extr|scatter|compress|cvt|tilestore|set|pop)")
_REGISTER_BITS: Mapping[str, int] = MappingProxyType({"x": 128, "y": 256, "z": 512})
_ELEMENT_BITS: Mapping[str, int] = MappingProxyType({"s": 32, "d": 64, "h": 16})
_KINDS = (
    ("prefetch", re.compile(r"prefetch")),
    ("branch", re.compile(r"j|call|ret|loop")),
    ("gather", re.compile(r"vp?(gather|scatter)")),
    ("broadcast", re.compile(r"vp?broadcast|v?movddup")),
    ("shuffle", re.compile(r"v?p?(shuf|perm|unpck|insert|extract|blend|align|movhl|movlh|compress|expand)")),
)
_MOVES = re.compile(r"v?(p?maskmov|mov|lddqu)|kmov|tileload|tilestore")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        text: Mnemonic and operands, one space between them, without a comment.
        mnemonic: The mnemonic; a prefix such as ``rep`` is part of it.
        operands: The operands in AT&T order, the destination last.
    """

    text: str
    mnemonic: str
    operands: tuple[str, ...]

    @property
    def destination(self) -> str:
        """The operand that is written; empty without operands."""
        return self.operands[-1] if self.operands else ""

    @property
    def memory(self) -> str | None:
        """The memory operand that is accessed, or None; an address that is only computed or hinted at is none."""
        if self.mnemonic.startswith(("lea", "nop", "prefetch")):
            return None
        return next((operand for operand in self.operands if "(" in operand), None)

    @property
    def base(self) -> str | None:
        """The base register of the memory operand ("%rsp"), or None."""
        found = _BASE.search(self.memory or "")
        return found.group(1) if found else None

    @property
    def writes_memory(self) -> bool:
        """Whether the instruction stores to its memory operand."""
        last = self.operands[-1] if self.operands else None
        return self.memory is not None and self.memory == last and not self.mnemonic.startswith(_READS_DESTINATION)

    @property
    def reads_memory(self) -> bool:
        """Whether the instruction loads from its memory operand."""
        return self.memory is not None and not (self.writes_memory and _ONLY_WRITES.match(self.mnemonic))

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops."""
        return _STACK_OPERATION.match(self.mnemonic) is not None

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.mnemonic.startswith("call")

    @property
    def fma(self) -> bool:
        """Whether it multiplies vectors and adds the products to sums."""
        return _FMA.match(self.mnemonic) is not None or self.mnemonic in _DOTS

    @property
    def tile_product(self) -> bool:
        """Whether it multiplies AMX's tiles and adds to one."""
        return _TILE_PRODUCT.match(self.mnemonic) is not None

    @property
    def multiply(self) -> bool:
        """Whether it is a multiplication of floats or of pairs that leaves the addition to another instruction."""
        return _MULTIPLY.match(self.mnemonic) is not None or self.mnemonic in _DOT_MULTIPLIES

    @property
    def products(self) -> int:
        """Products of two elements that it computes to be summed; those of whole tiles, as the text tells no shapes."""
        if self.tile_product:
            return _TILE_ROWS**3 * (2 if self.mnemonic.endswith("ps") else 4)
        group = _DOTS.get(self.mnemonic) or _DOT_MULTIPLIES.get(self.mnemonic) or 1
        return self.lanes * group if self.fma or self.multiply else 0

    @property
    def lanes(self) -> int:
        """Elements, or sums, that an instruction works on: 1 when scalar, 16 for f32 in a 512-bit register."""
        found = _VECTOR_REGISTER.match(self.operands[-1]) if self.operands else None
        register = found.group(1)[0] if found else ""
        if register in _REGISTER_BITS and (self.mnemonic in _DOTS or self.mnemonic in _DOT_MULTIPLIES):
            return _REGISTER_BITS[register] // 32
        if register not in _REGISTER_BITS or _SCALAR_FLOAT.search(self.mnemonic):
            return 1
        return _REGISTER_BITS[register] // _ELEMENT_BITS.get(self.mnemonic[-1], 32)

    @property
    def category(self) -> str:
        """One of `CATEGORIES`: what the instruction is there for."""
        if self.fma or self.multiply or self.tile_product or _ADD.match(self.mnemonic):
            return "multiply-add"
        for kind, pattern in _KINDS:
            if pattern.match(self.mnemonic):
                return kind
        if not any(_VECTOR_REGISTER.match(operand) for operand in self.operands):
            return "scalar"
        if self.memory and _MOVES.match(self.mnemonic):
            return "store" if self.writes_memory else "load"
        return "vector"


def read(line: str) -> Instruction:
    """Reads one instruction; `line` has no comment and no label."""
    mnemonic, _, rest = re.sub(r"^\{\w+\}\s*", "", line).partition("\t" if "\t" in line else " ")
    while mnemonic.split()[-1] in _PREFIXES and rest:
        following, _, rest = rest.strip().partition(" ")
        mnemonic = f"{mnemonic} {following}"
    operands = tuple(part.strip() for part in re.split(r",(?![^(]*\))", rest)) if rest.strip() else ()
    return Instruction(f"{mnemonic} {', '.join(operands)}".strip(), mnemonic, operands)


def frame(blocks: Sequence[Block]) -> set[str]:
    """%rsp, and the frame and base pointers when the function sets them from it."""
    copies = {
        each.operands[1]
        for block in blocks
        for each in block.instructions
        if each.mnemonic == "movq" and each.operands[0] == "%rsp"
    }
    return {"%rsp"} | (copies & {"%rbp", "%rbx"})


SYNTAX = Syntax(
    comment="#",
    read=lambda line, _: read(line),
    leaves=re.compile(r"j|ret|ud2|loop"),
    always=re.compile(r"jmp|ret|ud2"),
    frame=frame,
)
"""How x86-64's assembly is read."""
