# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instruments optimized LLVM IR, so that a kernel records which of its blocks ran, and what its masks were.

LLVM's SanitizerCoverage pass marks blocks too. It needs constructors and section bounds from a linker, which kernels in memory do not
have, and names blocks by addresses. Here each block stores one byte, after O3, and the object has a table that names each block by its
schedule line and loops.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.emit import attribution
from tilewright.emit.attribution import Place

COPY = "tilewright_coverage"
"""The function of an instrumented object that copies what it recorded: a byte for each block, and three for each mask."""
MASKS = ("empty", "partial", "full")
"""What a mask may be, in the order of its bytes."""
_BLOCKS, _MASKS = f"{COPY}_blocks", f"{COPY}_masks"
_SECTION = ".tilewright.coverage"
_DEFINE = re.compile(r"define .*@([-\w.$]+|\"[^\"]*\")\(")
_LABEL = re.compile(r"([-\w.$]+|\"[^\"]*\"):")
_INSTRUCTION = re.compile(r"  (?!\]|\S+ = phi )\S")
_MASKED = re.compile(r"call .*@llvm\.(masked\.\w+|aarch64\.sme\.\w+)\S*\(.*?(<(?:vscale x )?(\d+) x i1>) (%[-\w.$]+)")
_NAKED = re.compile(r"^attributes (#\d+) = \{[^}]*\bnaked\b", re.MULTILINE)
"""Attributes of functions that have no registers to spare."""
_ACCESS = re.compile(r"memory\([^)]*\) ?")
_HEADER, _ENTRY = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block of a kernel.

    Attributes:
        function: The function that it was written in, such as one case of a kernel with dynamic extents.
        label: Its name in the stage "llvmir".
        origin: The line of the schedule that made it, with the loops around it; empty for what no schedule made.
        instructions: How many instructions of LLVM IR it has.
    """

    function: str
    label: str
    origin: str
    instructions: int


@dataclass(frozen=True, slots=True)
class Mask:
    """A vector mask that is not constant.

    Attributes:
        block: The number of its block.
        op: What it masks, such as "masked.load".
    """

    block: int
    op: str


@dataclass(frozen=True, slots=True)
class Table:
    """What the recorded bytes of an object are about: first each block's, then each mask's."""

    blocks: tuple[Block, ...]
    masks: tuple[Mask, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes an object records."""
        return len(self.blocks) + len(MASKS) * len(self.masks)

    def as_json(self) -> list[list[list[str | int]]]:
        """What `from_json` reads."""
        blocks = [[each.function, each.label, each.origin, each.instructions] for each in self.blocks]
        return [blocks, [[each.block, each.op] for each in self.masks]]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Sequence[str | int]]]) -> Table:
        """The table of which `as_json` made `value`."""
        blocks, masks = value
        return cls(
            tuple(Block(str(f), str(label), str(origin), int(count)) for f, label, origin, count in blocks),
            tuple(Mask(int(block), str(op)) for block, op in masks),
        )


def instrumented(llvm_ir: str) -> str:
    """Optimized LLVM IR that records, with the function `COPY` and the table that `read` finds in its object."""
    known = attribution.places(llvm_ir)
    blocks: list[_Block] = []
    masks: list[Mask] = []
    lines: list[str] = []
    reductions: set[str] = set()
    naked = {"naked", *_NAKED.findall(llvm_ir)}
    function, is_new = "", False
    for line in llvm_ir.splitlines():
        label = _LABEL.match(line) if function else None
        if defined := _DEFINE.match(line):
            function = "" if naked.intersection(line.split()) else defined[1]
        elif line == "}":
            function = ""
        if function and (defined or label):
            blocks.append(_Block(function, label[1] if label else "entry"))
            is_new = True
        elif function and _INSTRUCTION.match(line):
            if is_new:
                lines.append(f"  store i8 1, ptr getelementptr (i8, ptr @{_BLOCKS}, i64 {len(blocks) - 1})")
                is_new = False
            blocks[-1].add(attribution.place_of(line, known))
            if masked := _MASKED.search(line):
                op, vector, lanes, name = masked.groups()
                reduced = f"{'nx' if 'vscale' in vector else ''}v{lanes}i1({vector}"
                lines += _recording(len(masks), f"{reduced} {name})")
                reductions.add(f"{reduced})")
                masks.append(Mask(len(blocks) - 1, op))
        lines.append(_ACCESS.sub("", line) if line.startswith(("define", "attributes")) else line)
    functions = [f"i1 @llvm.vector.reduce.{kind}.{each}" for each in sorted(reductions) for kind in ("and", "or")]
    functions.append("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    lines += [f"declare {each}" for each in functions if f" {each.split('(')[0]}(" not in llvm_ir]
    return "\n".join(lines) + _own(Table(tuple(each.made() for each in blocks), tuple(masks)))


def read(object_: bytes) -> Table | None:
    """The table of an ELF object; None of one that is not instrumented."""
    packed = _section(object_, _SECTION)
    return None if packed is None else Table.from_json(json.loads(zlib.decompress(packed)))


@dataclass
class _Block:
    """A block whose instructions are being read."""

    function: str
    label: str
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    instructions: int = 0

    def add(self, place: Place | None) -> None:
        """Counts an instruction, which comes from `place`."""
        self.instructions += 1
        if place is not None:
            self.places[place.function, str(place.origin or "")] += 1

    def made(self) -> Block:
        """The block, which comes from where most of its instructions do that a schedule made."""
        made = Counter({key: count for key, count in self.places.items() if key[1]}) or self.places
        ((function, origin), _), *_ = [*made.most_common(1), ((self.function, ""), 0)]
        return Block(function, self.label, origin, self.instructions)


def _recording(number: int, reduced: str) -> list[str]:
    """The instructions that record what a mask is: one more than nothing where a lane is on, and two where all are."""
    at = f"%{COPY}.{number}"
    return [
        f"  {at}.any = call i1 @llvm.vector.reduce.or.{reduced}",
        f"  {at}.all = call i1 @llvm.vector.reduce.and.{reduced}",
        f"  {at}.one = zext i1 {at}.any to i64",
        f"  {at}.two = zext i1 {at}.all to i64",
        f"  {at}.is = add i64 {at}.one, {at}.two",
        f"  {at}.to = getelementptr i8, ptr getelementptr (i8, ptr @{_MASKS}, i64 {len(MASKS) * number}), i64 {at}.is",
        f"  store i8 1, ptr {at}.to",
    ]


def _own(table: Table) -> str:
    """What an instrumented module has besides: where it records, the function that copies that, and the table."""
    packed = zlib.compress(json.dumps(table.as_json()).encode())
    text = "".join(f"\\{each:02X}" for each in packed)
    blocks, masks = len(table.blocks), len(MASKS) * len(table.masks)
    return f"""
@{_BLOCKS} = internal global [{blocks} x i8] zeroinitializer
@{_MASKS} = internal global [{masks} x i8] zeroinitializer
@{COPY}_table = hidden constant [{len(packed)} x i8] c"{text}", section "{_SECTION}", align 1
define void @{COPY}(ptr %to) {{
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr @{_BLOCKS}, i64 {blocks}, i1 false)
  %masks = getelementptr i8, ptr %to, i64 {blocks}
  call void @llvm.memcpy.p0.p0.i64(ptr %masks, ptr @{_MASKS}, i64 {masks}, i1 false)
  ret void
}}
"""


def _section(object_: bytes, name: str) -> bytes | None:
    """The bytes of a section of a little-endian ELF object of 64 bits; None where it has none of that name."""
    start, size, count, names = (_HEADER.unpack_from(object_)[each] for each in (6, 11, 12, 13))
    sections = [_ENTRY.unpack_from(object_, start + size * number) for number in range(count)]
    at = sections[names][4]
    wanted = b"%s\0" % name.encode()
    found = (each for each in sections if object_.startswith(wanted, at + each[0]))
    return next((object_[each[4] : each[4] + each[5]] for each in found), None)
