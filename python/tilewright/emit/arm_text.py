# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text for AArch64 into instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.emit import assembly

_VECTOR = re.compile(r"\{?\s*([vzqdshb])(\d+)(?:\.(\d*)([bhsd]))?")
_BITS: Mapping[str, int] = MappingProxyType({"b": 8, "h": 16, "s": 32, "d": 64})
_REGISTER_BITS = 128


@dataclass(frozen=True, slots=True)
class Instruction(assembly.Instruction):
    """One instruction; the destination is the first operand."""

    hints = ("prf",)
    address = re.compile(r"^\[(\w+)")
    stores = ("st",)
    called = re.compile(r"blr?$")
    fused = re.compile(r"fml[as]|ml[as]|[su]mlal|fmlal|fmadd|(s|u|us|su|bf)dot$|(s|u|us|bf)mmla$")
    groups = MappingProxyType(
        {
            **dict.fromkeys(("sdot", "udot", "usdot", "sudot"), 4),
            "bfdot": 2,
            **dict.fromkeys(("smmla", "ummla", "usmmla"), 8),
            "bfmmla": 4,
        }
    )
    multiplies = re.compile(r"f?mul$")
    adds = re.compile(r"fadd$")
    tiles = re.compile(r"(b?f|s|u|su|us)mopa$")
    vectors = _VECTOR
    kinds = (
        ("prefetch", re.compile(r"prfm|prfum")),
        ("branch", re.compile(r"b(\.|$)|bl|br|cbn?z|tbn?z|ret")),
        ("broadcast", re.compile(r"ld1r|dup")),
        ("shuffle", re.compile(r"zip|uzp|trn|ext$|tbl|tbx|ins$|rev")),
    )

    @property
    def multiply(self) -> bool:
        """Whether it multiplies floats or vectors, and leaves the addition to another instruction."""
        return self.multiplies.match(self.mnemonic) is not None and _VECTOR.match(self.destination) is not None

    @property
    def by_lane(self) -> bool:
        """Whether it takes one element, or group of elements, of its last register for all lanes."""
        return bool(self.operands) and self.operands[-1].endswith("]") and not self.operands[-1].startswith("[")

    @property
    def tile_products(self) -> int:
        """Products of two elements in an outer product, as if vectors had 128 bits."""
        sum_bits, bits = (_BITS[each[-1]] for each in (self.destination, self.operands[-1]))
        return (_REGISTER_BITS // sum_bits) ** 2 * (sum_bits // bits)

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar; of a scalable vector, those of 128 bits."""
        found = _VECTOR.match(self.destination)
        if found is None or found[4] is None:
            return 1
        return int(found[3]) if found[3] else _REGISTER_BITS // _BITS[found[4]]


def read(line: str) -> Instruction:
    """Reads one instruction; `line` has no comment and no label."""
    mnemonic, _, rest = line.replace("\t", " ").partition(" ")
    operands = tuple(part.strip() for part in re.split(r",(?![^\[{]*[\]}])", rest)) if rest.strip() else ()
    return Instruction(f"{mnemonic} {', '.join(operands)}".strip(), mnemonic, operands)


SYNTAX = assembly.Syntax(
    comment="//",
    read=lambda line, _: read(line),
    leaves=re.compile(r"(b|b\..*|br|cbn?z|tbn?z|ret|brk)$"),
    always=re.compile(r"(b|br|ret|brk)$"),
    stack="sp",
    frames=frozenset({"x29"}),
    copies=frozenset({"mov", "add"}),
)
"""How AArch64's assembly is read."""
