# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for x86-64 (AT&T syntax) into instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.emit import assembly

_PREFIXES = frozenset({"lock", "rep", "repe", "repne", "repz", "repnz", "data16", "notrack"})
_TILE_ROWS = 16
_SCALAR_FLOAT = re.compile(r"s[sdh]$")
_VECTOR_REGISTER = re.compile(r"%([xyzt]mm|k)\d")
_STACK_OPERATION = re.compile(r"(push|pop)f?[qw]?$")
_READS_DESTINATION = ("cmp", "test", "ucomis", "comis", "vucomis", "vcomis", "bt", "call", "jmp", "push", "ldtilecfg")
_ONLY_WRITES = re.compile(r"v?p?k?(mov|maskmov|extract|extr|scatter|compress|cvt|tilestore|set|pop)")
_REGISTER_BITS: Mapping[str, int] = MappingProxyType({"x": 128, "y": 256, "z": 512})
_ELEMENT_BITS: Mapping[str, int] = MappingProxyType({"s": 32, "d": 64, "h": 16})


@dataclass(frozen=True, slots=True)
class Instruction(assembly.Instruction):
    """One instruction; operands are in AT&T order, the destination last. A prefix such as ``rep`` is part of the mnemonic."""

    written = -1
    hints = ("lea", "nop", "prefetch")
    address = re.compile(r"\((%\w+)?")
    called = re.compile(r"call")
    fused = re.compile(r"vfn?m(add|sub)|vpdp(b(us|ss|su|uu)|wss)ds?$|vdpbf16ps$")
    groups = MappingProxyType(
        {
            **{f"vpdpb{signs}d{saturating}": 4 for signs in ("us", "ss", "su", "uu") for saturating in ("", "s")},
            **dict.fromkeys(("vpdpwssd", "vpdpwssds", "vdpbf16ps", "vpmaddwd", "pmaddwd"), 2),
        }
    )
    multiplies = re.compile(r"(v?mul[ps][sdh]|v?pmaddwd)$")
    adds = re.compile(r"v?add[ps][sdh]$")
    tiles = re.compile(r"tdp(b[su][su]d|bf16ps|fp16ps)$")
    vectors = _VECTOR_REGISTER
    moves = re.compile(r"v?(p?maskmov|mov|lddqu)|kmov|tileload|tilestore")
    kinds = (
        ("prefetch", re.compile(r"prefetch")),
        ("branch", re.compile(r"j|call|ret|loop")),
        ("gather", re.compile(r"vp?(gather|scatter)")),
        ("broadcast", re.compile(r"vp?broadcast|v?movddup")),
        ("shuffle", re.compile(r"v?p?(shuf|perm|unpck|insert|extract|blend|align|movhl|movlh|compress|expand)")),
    )

    @property
    def writes_memory(self) -> bool:
        """Whether it stores to its memory operand."""
        stores = self.memory is not None and self.memory == self.destination
        return stores and not self.mnemonic.startswith(_READS_DESTINATION)

    @property
    def reads_memory(self) -> bool:
        """Whether it loads from its memory operand."""
        return self.memory is not None and not (self.writes_memory and _ONLY_WRITES.match(self.mnemonic))

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops."""
        return _STACK_OPERATION.match(self.mnemonic) is not None

    @property
    def tile_products(self) -> int:
        """Products of two elements in a product of whole tiles, as the text tells no shapes."""
        return _TILE_ROWS**3 * (2 if self.mnemonic.endswith("ps") else 4)

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar, 16 for f32 in a 512-bit register."""
        found = _VECTOR_REGISTER.match(self.destination)
        register = found.group(1)[0] if found else ""
        if register in _REGISTER_BITS and self.mnemonic in self.groups:
            return _REGISTER_BITS[register] // 32
        if register not in _REGISTER_BITS or _SCALAR_FLOAT.search(self.mnemonic):
            return 1
        return _REGISTER_BITS[register] // _ELEMENT_BITS.get(self.mnemonic[-1], 32)


def read(line: str) -> Instruction:
    """Reads one instruction; `line` has no comment and no label."""
    mnemonic, _, rest = re.sub(r"^\{\w+\}\s*", "", line).partition("\t" if "\t" in line else " ")
    while mnemonic.split()[-1] in _PREFIXES and rest:
        following, _, rest = rest.strip().partition(" ")
        mnemonic = f"{mnemonic} {following}"
    operands = tuple(part.strip() for part in re.split(r",(?![^(]*\))", rest)) if rest.strip() else ()
    return Instruction(f"{mnemonic} {', '.join(operands)}".strip(), mnemonic, operands)


SYNTAX = assembly.Syntax(
    comment="#",
    read=lambda line, _: read(line),
    leaves=re.compile(r"j|ret|ud2|loop"),
    always=re.compile(r"jmp|ret|ud2"),
    stack="%rsp",
    frames=frozenset({"%rbp", "%rbx"}),
    copies=frozenset({"movq"}),
)
"""How x86-64's assembly is read."""
