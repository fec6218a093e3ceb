# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses LLVM's assembly text into functions, basic blocks and instructions; a `Syntax` has what differs by architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

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

ORIGIN = "from "
"""How a comment starts that says where an instruction comes from."""
_LABEL = re.compile(r'^("[^"]+"|[\w.$@]+):\s*(.*)$')


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: what is the same on every architecture. A subclass has the tables, and counts elements.

    Attributes:
        text: Mnemonic and operands, one space between them, without a comment.
        mnemonic: The mnemonic.
        operands: The operands in the order of the text.
        element_bits: Bits of an element of vectors, where an instruction before it has set them; otherwise 0.
        group: Registers that it takes as one, where an instruction before it has set that: 0.5 is half of one.
        origin: Where it comes from, as `attribution.annotated` says it; empty where that is not known.
        line: Its line in the text, from 1.
    """

    text: str
    mnemonic: str
    operands: tuple[str, ...]
    element_bits: int = 0
    group: float = 1
    origin: str = ""
    line: int = field(default=0, compare=False)

    written: ClassVar[int] = 0
    """Which operand is written."""
    hints: ClassVar[tuple[str, ...]]
    """What the mnemonics begin with of which a memory operand is not accessed, but only hinted at or computed."""
    address: ClassVar[re.Pattern[str]]
    """What is searched for in a memory operand; its group is the base register."""
    stores: ClassVar[tuple[str, ...]] = ()
    """What the mnemonics of stores begin with."""
    called: ClassVar[re.Pattern[str]]
    """Calls."""
    fused: ClassVar[re.Pattern[str]]
    """Multiply-adds of floats or vectors, and dot products."""
    groups: ClassVar[Mapping[str, int]] = MappingProxyType({})
    """Products that one sum takes up at once, where these are several."""
    multiplies: ClassVar[re.Pattern[str]]
    """Multiplications of floats or vectors that leave the addition to another instruction."""
    adds: ClassVar[re.Pattern[str]]
    """Those additions."""
    tiles: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    """Products of tiles."""
    vectors: ClassVar[re.Pattern[str]]
    """Operands that are vectors."""
    moves: ClassVar[re.Pattern[str]] = re.compile("")
    """Those of the instructions with a memory operand that do nothing else but load or store."""
    kinds: ClassVar[tuple[tuple[str, re.Pattern[str]], ...]]
    """Categories that the mnemonic alone tells; the first one that matches is taken."""

    @property
    def destination(self) -> str:
        """The operand that is written; empty without operands."""
        return self.operands[self.written] if self.operands else ""

    @property
    def memory(self) -> str | None:
        """The memory operand that is accessed, or None."""
        if self.mnemonic.startswith(self.hints):
            return None
        return next((operand for operand in self.operands if self.address.search(operand)), None)

    @property
    def base(self) -> str | None:
        """The base register of the memory operand, or None."""
        found = self.address.search(self.memory or "")
        return found.group(1) if found else None

    @property
    def writes_memory(self) -> bool:
        """Whether it stores."""
        return self.memory is not None and self.mnemonic.startswith(self.stores)

    @property
    def reads_memory(self) -> bool:
        """Whether it loads."""
        return self.memory is not None and not self.writes_memory

    @property
    def uses_stack(self) -> bool:
        """Whether it pushes or pops."""
        return False

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.called.match(self.mnemonic) is not None

    @property
    def fma(self) -> bool:
        """Whether it multiplies floats or vectors and adds the products to sums."""
        return self.fused.match(self.mnemonic) is not None

    @property
    def multiply(self) -> bool:
        """Whether it multiplies floats or vectors, and leaves the addition to another instruction."""
        return self.multiplies.match(self.mnemonic) is not None

    @property
    def tile_product(self) -> bool:
        """Whether it multiplies AMX's tiles and adds to one, or adds an outer product to one of SME's."""
        return self.tiles.match(self.mnemonic) is not None

    @property
    def products(self) -> int:
        """Products of two elements that it computes to be summed; of scalable vectors, as if ``vscale`` were 1."""
        if self.tile_product:
            return self.tile_products
        return self.lanes * self.groups.get(self.mnemonic, 1) if self.fma or self.multiply else 0

    @property
    def tile_products(self) -> int:
        """Products of two elements in a product of tiles."""
        return 0

    @property
    def lanes(self) -> int:
        """Elements, or sums, that it works on: 1 when scalar; of scalable vectors, as if ``vscale`` were 1."""
        raise NotImplementedError

    @property
    def is_vector(self) -> bool:
        """Whether it has a vector register as an operand."""
        return any(self.vectors.match(operand) for operand in self.operands)

    @property
    def category(self) -> str:
        """One of `CATEGORIES`: what it is there for."""
        if self.fma or self.multiply or self.tile_product or self.adds.match(self.mnemonic):
            return "multiply-add"
        for kind, pattern in self.kinds:
            if pattern.match(self.mnemonic):
                return kind
        if not self.is_vector:
            return "scalar"
        if self.memory and self.moves.match(self.mnemonic):
            return "store" if self.writes_memory else "load"
        return "vector"


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
        stack: The stack pointer.
        frames: Registers that hold addresses of a function's stack frame too, where the function sets them from it.
        copies: Mnemonics that set them.
        sets: Mnemonics that set what later instructions do; None where there are none.
    """

    comment: str
    read: Callable[[str, str], Instruction]
    leaves: re.Pattern[str]
    always: re.Pattern[str]
    stack: str
    frames: frozenset[str]
    copies: frozenset[str]
    sets: re.Pattern[str] | None = None

    def frame(self, blocks: Sequence[Block]) -> set[str]:
        """The registers that hold addresses of the stack frame of a function of these blocks."""
        instructions = (each for block in blocks for each in block.instructions)
        copies = {
            each.destination
            for each in instructions
            if each.mnemonic in self.copies and self.stack in each.operands[:2]
        }
        return {self.stack} | (copies & self.frames)


def functions(asm: str, syntax: Syntax) -> Iterator[tuple[str, list[Block]]]:
    """Each function's name and basic blocks, in the order of the text.

    A label is a function when a ``.type`` directive says so; without any such directive, when it is not a local label.
    """
    names = set(re.findall(r"^\s*\.type\s+(\S+?),\s*@function", asm, re.MULTILINE))
    found: dict[str, list[Block]] = {}
    blocks = found.setdefault("", [])
    setting = ""
    for number, raw in enumerate(asm.splitlines(), 1):
        line, _, remark = (part.strip() for part in raw.partition(syntax.comment))
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
        origin = remark.removeprefix(ORIGIN) if remark.startswith(ORIGIN) else ""
        blocks[-1].instructions.append(replace(syntax.read(line, setting), origin=origin, line=number))
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
