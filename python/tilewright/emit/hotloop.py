# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the innermost loops of a kernel in its assembly text, and counts their instructions.

A loop is a natural loop of the control-flow graph: an edge back to a block that dominates its source, with every block
that reaches that edge without passing the header. The layout of the text does not matter then: LLVM rotates loops, and
may put a loop's blocks far from each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.emit.assembly import CATEGORIES, Block, Instruction, Syntax, functions
from tilewright.targets import registry


@dataclass(frozen=True, slots=True)
class HotLoop:
    """An innermost loop.

    Attributes:
        function: The function it is in.
        label: The label of its header (".LBB0_3"), or the function's name when the header has no label.
        instructions: Its instructions in the order of the text.
        text: The loop as assembly: labels, and one instruction a line.
        blocks: How many basic blocks it has; 1 is a loop without a branch inside.
        depth: How many loops it is in, itself included.
        stack_accesses: Instructions that read or write the stack frame: spills and reloads.
    """

    function: str
    label: str
    instructions: tuple[Instruction, ...]
    text: str
    blocks: int
    depth: int
    stack_accesses: int

    @property
    def lines(self) -> tuple[str, ...]:
        """The instructions' text."""
        return tuple(each.text for each in self.instructions)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each mnemonic occurs, the most frequent first."""
        return dict(Counter(each.mnemonic for each in self.instructions).most_common())

    @property
    def mix(self) -> Mapping[str, int]:
        """How many instructions of each category there are, in the order of `CATEGORIES`, without zeros."""
        counts = Counter(each.category for each in self.instructions)
        return {category: counts[category] for category in CATEGORIES if counts[category]}

    @property
    def fma(self) -> int:
        """Instructions that multiply vectors and add: fused multiply-adds, and dot products of small types."""
        return sum(each.fma for each in self.instructions)

    @property
    def tile_products(self) -> int:
        """Instructions that multiply AMX's tiles and add, or add outer products to SME's."""
        return sum(each.tile_product for each in self.instructions)

    @property
    def configurations(self) -> int:
        """Instructions that configure AMX's tiles, which takes longer than a product."""
        return sum(each.mnemonic == "ldtilecfg" for each in self.instructions)

    @property
    def multiplies(self) -> int:
        """Multiplications whose addition is another instruction: those of targets without a fused one."""
        return sum(each.multiply for each in self.instructions)

    @property
    def origins(self) -> Mapping[str, int]:
        """How many instructions come from where, the most frequent first, where the text has that."""
        return dict(Counter(each.origin for each in self.instructions if each.origin).most_common())

    @property
    def flops(self) -> int:
        """Operations of one iteration, a product and its addition counted as two."""
        return sum(2 * each.products for each in self.instructions)

    @property
    def loads(self) -> int:
        """Instructions that read memory."""
        return sum(each.reads_memory for each in self.instructions)

    @property
    def stores(self) -> int:
        """Instructions that write memory."""
        return sum(each.writes_memory for each in self.instructions)

    @property
    def gathers(self) -> int:
        """Gather and scatter instructions."""
        return self.mix.get("gather", 0)

    @property
    def calls(self) -> int:
        """Calls of functions."""
        return sum(each.calls for each in self.instructions)


def hot_loops(asm: str, architecture: str = "x86_64") -> list[HotLoop]:
    """The innermost loops of every function, in the order of the text.

    Args:
        asm: Assembly text as LLVM writes it.
        architecture: For which architecture, as the first part of a triple.
    """
    syntax: Syntax = registry.knowledge("tilewright.emit.{}_text", registry.family_of(architecture).name).SYNTAX
    return [loop for name, blocks in functions(asm, syntax) for loop in _innermost(name, blocks, syntax)]


def hottest(asm: str, architecture: str = "x86_64") -> HotLoop | None:
    """The innermost loop with the most arithmetic an iteration: the microkernel's.

    Of two with as much arithmetic, the one in more loops wins, then the shorter one (a tail carries masks). None when
    no innermost loop multiplies: a kernel so small that it is straight-line code, or one that is empty.
    """
    arithmetic = [loop for loop in hot_loops(asm, architecture) if loop.flops]
    return max(arithmetic, key=lambda loop: (loop.flops, loop.depth, -len(loop.instructions)), default=None)


def _innermost(function: str, blocks: Sequence[Block], syntax: Syntax) -> list[HotLoop]:
    """The natural loops of one function that hold no other loop."""
    loops = _natural_loops(blocks)
    frame = syntax.frame(blocks)
    found: list[HotLoop] = []
    for header, body in sorted(loops.items()):
        if any(other != header and other in body for other in loops):
            continue
        instructions = tuple(each for number in sorted(body) for each in blocks[number].instructions)
        loop = HotLoop(
            function=function,
            label=blocks[header].label or function,
            instructions=instructions,
            text="".join(_text(blocks[number]) for number in sorted(body)),
            blocks=len(body),
            depth=sum(header in other for other in loops.values()),
            stack_accesses=sum(each.uses_stack or each.base in frame for each in instructions),
        )
        found.append(loop)
    return found


def _text(block: Block) -> str:
    """A block as assembly; before instructions of another origin than those before them, a comment with it."""
    lines, origin = [f"{block.label}:"] if block.label else [], ""
    for each in block.instructions:
        if each.origin != origin:
            origin = each.origin
            lines.append(f"# {origin}" if origin else "#")
        lines.append(f"\t{each.text}")
    return "".join(f"{line}\n" for line in lines)


def _natural_loops(blocks: Sequence[Block]) -> dict[int, set[int]]:
    """The blocks of each natural loop, by its header's number."""
    before = _predecessors(blocks)
    dominator = _immediate_dominators(blocks, before)
    loops: dict[int, set[int]] = {}
    for source in dominator:
        for header in blocks[source].successors:
            if not _dominates(dominator, header, source):
                continue
            body = loops.setdefault(header, {header})
            waiting = [source]
            while waiting:
                number = waiting.pop()
                if number not in body:
                    body.add(number)
                    waiting += [each for each in before[number] if each in dominator]
    return loops


def _predecessors(blocks: Sequence[Block]) -> list[list[int]]:
    """For each block, the blocks it can follow."""
    before: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].append(number)
    return before


def _postorder(blocks: Sequence[Block]) -> list[int]:
    """The blocks that are reached from the first one, each after those that it reaches first."""
    order: list[int] = []
    seen = {0}
    waiting = [(0, iter(blocks[0].successors))]
    while waiting:
        number, successors = waiting[-1]
        following = next((each for each in successors if each not in seen), None)
        if following is None:
            order.append(number)
            waiting.pop()
        else:
            seen.add(following)
            waiting.append((following, iter(blocks[following].successors)))
    return order


def _immediate_dominators(blocks: Sequence[Block], before: Sequence[Sequence[int]]) -> dict[int, int]:
    """The closest block that every path to a block passes, for each block that is reached; the first is its own.

    The method is that of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    order = _postorder(blocks)
    rank = {number: position for position, number in enumerate(order)}
    dominator = {0: 0}
    changed = True
    while changed:
        changed = False
        for number in reversed(order[:-1]):
            known = [each for each in before[number] if each in dominator]
            new = known[0]
            for other in known[1:]:
                new = _common(dominator, rank, new, other)
            if dominator.get(number) != new:
                dominator[number] = new
                changed = True
    return dominator


def _common(dominator: Mapping[int, int], rank: Mapping[int, int], one: int, other: int) -> int:
    """The closest block that dominates both."""
    while one != other:
        while rank[one] < rank[other]:
            one = dominator[one]
        while rank[other] < rank[one]:
            other = dominator[other]
    return one


def _dominates(dominator: Mapping[int, int], above: int, below: int) -> bool:
    """Whether every path to `below` passes `above`."""
    while below != above and below != dominator[below]:
        below = dominator[below]
    return below == above
