# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks claims about assembly, such as ``spills == 0`` or ``cycles <= 12.5``: performance that a test can assert without a clock."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from tilewright.emit import code_bytes, hotloop, mca
from tilewright.emit.assembly import Instruction, functions
from tilewright.emit.hotloop import HotLoop
from tilewright.errors import TilewrightError
from tilewright.targets import registry
from tilewright.targets.base import Target

WHERE = "check_asm"
_NAME = r"[\w.]+(?:\([\w.]+\))?"
_CLAIM = re.compile(rf"\s*({_NAME})\s*(==|!=|<=|>=|<|>)\s*(?:(\d+(?:\.\d+)?)\s*\*\s*)?({_NAME})\s*$")
_NUMBER = re.compile(r"\d+(\.\d+)?$")
_COUNT = re.compile(r"(all\.)?count\(([\w.]+)\)$")
"""How often a mnemonic occurs in the hot loop, or in all of the text."""
_BYTES = ("bytes", "all.bytes")
"""The size of the machine code of the hot loop, and of all of the text."""
_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<=": operator.le,
        ">=": operator.ge,
        "<": operator.lt,
        ">": operator.gt,
    }
)
_OF_LOOP: Mapping[str, Callable[[HotLoop], float]] = MappingProxyType(
    {
        "instructions": lambda loop: len(loop.instructions),
        "fma": lambda loop: loop.fma,
        "tile_products": lambda loop: loop.tile_products,
        "multiplies": lambda loop: loop.multiplies,
        "flops": lambda loop: loop.flops,
        "loads": lambda loop: loop.loads,
        "stores": lambda loop: loop.stores,
        "spills": lambda loop: loop.stack_accesses,
        "gathers": lambda loop: loop.gathers,
        "calls": lambda loop: loop.calls,
        "blocks": lambda loop: loop.blocks,
        "depth": lambda loop: loop.depth,
    }
)
"""What is counted in the hot loop, by name."""
_SIMULATED: Mapping[str, Callable[[mca.Analysis], float]] = MappingProxyType(
    {
        "cycles": lambda analysis: analysis.cycles,
        "bound": lambda analysis: analysis.bound,
        "percent": lambda analysis: analysis.percent_of_bound,
        "ipc": lambda analysis: analysis.ipc,
        "pressure": lambda analysis: max(analysis.pressure.values(), default=0.0),
    }
)
"""What llvm-mca says of the hot loop, by name."""


class ClaimError(TilewrightError, AssertionError):
    """A claim about a kernel's assembly does not hold."""


def check(asm: str, target: Target, claims: Sequence[str]) -> None:
    """Checks claims about an assembly text.

    Args:
        asm: The text, as LLVM writes it.
        target: For what it is.
        claims: Each a name, a comparison and a number, another name or a multiple of one: ``fma == 24``, ``loads <= 0.5 * fma``. Names
            are those of the hot loop's counts and of llvm-mca's figures; ``count(vdivps)`` is how often a mnemonic occurs in the hot loop,
            and ``all.count(vdivps)`` in all of the text; ``bytes`` is the size of the hot loop's machine code, and ``all.bytes`` of all.

    Raises:
        ClaimError: A claim does not hold; the error gives what was found, and the hot loop's mnemonics.
        TilewrightError: A claim is none, or what it is about is not known: there is no hot loop, or no llvm-mca or llvm-mc.
    """
    facts = _Facts(asm, target)
    for claim in claims:
        name, comparison, factor, other = read(claim)
        value = facts.value(name)
        limit = float(factor or 1) * (float(other) if _NUMBER.match(other) else facts.value(other))
        if not _COMPARE[comparison](value, limit):
            of = "" if other[0].isdigit() and factor is None else f" ({limit:g})"
            raise ClaimError(f"{name} is {value:g}", where=WHERE, expected=f"{claim.strip()}{of}", remedy=facts.about)


def read(claim: str) -> tuple[str, str, str | None, str]:
    """The name, the comparison, the factor and the other side of a claim.

    Raises:
        TilewrightError: It is none.
    """
    found = _CLAIM.match(claim)
    if found is None:
        expected = "such as 'spills == 0' or 'loads <= 0.5 * fma'"
        raise TilewrightError(f"{claim!r} is no claim", where=WHERE, expected=expected)
    name, comparison, factor, other = found.groups()
    return name, comparison, factor, other


class _Facts:
    """What claims are about."""

    def __init__(self, asm: str, target: Target) -> None:
        syntax = registry.knowledge("tilewright.emit.{}_text", registry.family_of(target.architecture).name).SYNTAX
        self._all = [each for _, blocks in functions(asm, syntax) for block in blocks for each in block.instructions]
        self._asm = asm
        self._loop = hotloop.hottest(asm, target.architecture)
        self._target = target
        self._analysis: mca.Analysis | None = None
        self._sizes: Mapping[int, int] | None = None

    @property
    def about(self) -> str:
        """The hot loop in a line."""
        if self._loop is None:
            return "No loop multiplies"
        return "The hot loop has " + ", ".join(f"{count} {name}" for name, count in self._loop.counts.items())

    def value(self, name: str) -> float:
        """What a name stands for."""
        counted = _COUNT.match(name)
        if counted is not None and counted[1]:
            return Counter(each.mnemonic for each in self._all)[counted[2]]
        if name == "all.bytes":
            return self._bytes(self._all)
        if counted is None and name not in _OF_LOOP and name not in _SIMULATED and name not in _BYTES:
            known = ", ".join([*_OF_LOOP, *_SIMULATED, *_BYTES])
            raise TilewrightError(
                f"unknown name {name!r}", where=WHERE, expected=f"{known}, count(MNEMONIC) or all.count(MNEMONIC)"
            )
        if self._loop is None:
            raise TilewrightError(
                f"{name}: no loop multiplies", where=WHERE, expected="a hot loop, all.count(MNEMONIC) or all.bytes"
            )
        if counted is not None:
            return self._loop.counts.get(counted[2], 0)
        if name == "bytes":
            return self._bytes(self._loop.instructions)
        if name in _OF_LOOP:
            return _OF_LOOP[name](self._loop)
        self._analysis = self._analysis or mca.analyze(self._loop, self._target)
        return _SIMULATED[name](self._analysis)

    def _bytes(self, instructions: Iterable[Instruction]) -> int:
        self._sizes = self._sizes or code_bytes.sizes(self._asm, self._target, [each.line for each in self._all])
        return sum(self._sizes[each.line] for each in instructions)
