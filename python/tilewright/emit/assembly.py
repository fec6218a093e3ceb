# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text into functions, basic blocks and instructions; a `Syntax` has what differs by architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

CATEGORIES = (
    "multiply-add",
    "load",
    "broadcast",
    "shuffle",
    "gather",
    "store",
    "prefetch",
    "vector",
    "branch",
    "scalar",
)
"""The kinds of instruction that `Instruction.category` tells apart, in the order in which they are shown."""

_LABEL = re.compile(r'^("[^"]+"|[\w.$@]+):\s*(.*)$')


class Instruction(Protocol):
    """One instruction, of any architecture."""

    @property
    def text(self) -> str:
        """Mnemonic and operands, one space between them, without a comment."""
        ...

    @property
    def mnemonic(self) -> str:
        """The mnemonic."""
        ...

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands in the order of the text."""
        ...

    @property
    def destination(self) -> str:
        """The operand that is written; empty without operands."""
        ...

    @property
    def base(self) -> str | None:
        """The base register of the memory operand, or None."""
        ...

    @property
    def writes_memory(self) -> bool:
        """Whether it stores."""
        ...

    @property
    def reads_memory(self) -> bool:
        """Whether it loads."""
        ...

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops."""
        ...

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        ...

    @property
    def fma(self) -> bool:
        """Whether it multiplies vectors and adds the products to sums."""
        ...

    @property
    def multiply(self) -> bool:
        """Whether it multiplies, and leaves the addition to another instruction."""
        ...

    @property
    def tile_product(self) -> bool:
        """Whether it multiplies AMX's tiles and adds to one, or adds an outer product to one of SME's."""
        ...

    @property
    def products(self) -> int:
        """Products of two elements that it computes to be summed."""
        ...

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar."""
        ...

    @property
    def category(self) -> str:
        """One of `CATEGORIES`: what it is there for."""
        ...


@dataclass(slots=True)
class Block:
    """A basic block.

    Attributes:
        label: The label at its start, or None when only the block before leads here.
        instructions: Its instructions; a jump or a return can only be the last one.
        successors: The numbers, in the function, of the blocks that may follow.
    """

    label: str | None
    instructions: list[Instruction]
    successors: list[int]


@dataclass(frozen=True, slots=True)
class Syntax:
    """How one architecture's assembly is read.

    Attributes:
        comment: What starts a comment.
        read: Makes an instruction of a line without comment and label, and of the last line before it that sets what later ones do.
        leaves: Mnemonics after which control can go elsewhere than to the next instruction.
        always: Those after which it always does.
        frame: Of the blocks of a function, the registers that hold addresses of its stack frame.
        sets: Mnemonics that set what later instructions do; None where there are none.
    """

    comment: str
    read: Callable[[str, str], Instruction]
    leaves: re.Pattern[str]
    always: re.Pattern[str]
    frame: Callable[[Sequence[Block]], set[str]]
    sets: re.Pattern[str] | None = None


def functions(asm: str, syntax: Syntax) -> Iterator[tuple[str, list[Block]]]:
    """Each function's name and basic blocks, in the order of the text.

    A label is a function when a ``.type`` directive says so; without any such directive, when it is not a local label.
    """
    names = set(re.findall(r"^\s*\.type\s+(\S+?),\s*@function", asm, re.MULTILINE))
    found: dict[str, list[Block]] = {}
    blocks = found.setdefault("", [])
    setting = ""
    for raw in asm.splitlines():
        line = raw.split(syntax.comment, 1)[0].strip()
        while label := _LABEL.match(line):
            name, line = label.groups()
            if name in names or not (names or name.startswith(".L")):
                blocks, setting = found.setdefault(name, []), ""
            blocks.append(Block(name, [], []))
        if not line or line.startswith("."):
            continue
        if not blocks or _may_leave(blocks[-1], syntax):
            blocks.append(Block(None, [], []))
        if syntax.sets is not None and syntax.sets.match(line):
            setting = line
        blocks[-1].instructions.append(syntax.read(line, setting))
    for name, body in found.items():
        if any(block.instructions for block in body):
            _connect(body, syntax)
            yield name, body


def _may_leave(block: Block, syntax: Syntax) -> bool:
    """Whether control can go elsewhere than to the next instruction after the block's last one."""
    return bool(block.instructions) and syntax.leaves.match(block.instructions[-1].mnemonic) is not None


def _connect(blocks: list[Block], syntax: Syntax) -> None:
    """Sets the successors: the label that is jumped to, the last operand, and the next block where control falls through."""
    where = {block.label: number for number, block in enumerate(blocks) if block.label}
    for number, block in enumerate(blocks):
        last = block.instructions[-1] if _may_leave(block, syntax) else None
        if last is not None and last.operands and last.operands[-1] in where:
            block.successors.append(where[last.operands[-1]])
        always = last is not None and syntax.always.match(last.mnemonic)
        if not always and number + 1 < len(blocks):
            block.successors.append(number + 1)
