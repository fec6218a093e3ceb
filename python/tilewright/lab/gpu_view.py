# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws how a GPU kernel works, as SVG: tiles shared among warps, slots of the pipeline over time, pieces of rows in banks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.lab import blocks
from tilewright.lab.blocks import Level

_PARTS = (("wm", "wn", "warp"), ("rows", "columns", "thread"))
"""The sizes of the part of a tile that a warp or a thread has."""
_BUFFER = re.compile(r"memref\.alloc\(\) : memref<(\d+)x(\d+)x(\d+)x[a-z]+(\d+)\w*, 3>")
"""A tile in shared memory: slots, rows, columns and the bits of an element."""
PIECE, BANKS = 16, 128
"""Bytes that a thread moves at once, and of all banks together."""
_ROWS = 8
_FEWEST = 4
"""Pieces of a row: of fewer, it cannot be seen whether they are swizzled or padded."""
_AFTER = 4
"""Steps that are drawn after the pipeline is full."""
_CELL, _HEIGHT, _TOP = 26.0, 20.0, 40.0

Drawing = tuple[str, float, float]
"""What is drawn, as SVG, and its width and height."""


class Box(Protocol):
    """How an operand is copied by its tensor map."""

    operand: int
    shape: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tile in shared memory.

    Attributes:
        slots: How many tiles there is room for.
        rows: Rows of one.
        pieces: Pieces of 16 bytes in a row, with what pads it.
    """

    slots: int
    rows: int
    pieces: int

    @property
    def is_swizzled(self) -> bool:
        """Whether pieces of a row are in another order in each row; otherwise rows are a piece longer than needed."""
        return self.pieces.bit_count() == 1

    def bank_of(self, row: int, piece: int) -> int:
        """In which sixteen bytes of the banks a piece of a row lies: as `codegen.gpu.staging` places it."""
        among = BANKS // PIECE
        if self.is_swizzled:
            piece ^= row // max(1, among // self.pieces) % min(self.pieces, among)
        return (row * self.pieces + piece) % among


def buffers(threads: str) -> list[Buffer]:
    """The tiles in shared memory of a kernel, from its stage "threads"."""
    found = []
    for slots, rows, columns, bits in _BUFFER.findall(threads):
        pieces, rest = divmod(int(columns) * int(bits) // 8, PIECE)
        if not rest and pieces >= _FEWEST:
            found.append(Buffer(int(slots), int(rows), pieces))
    return found


def levels(extents: tuple[int, int, int], sizes: Mapping[str, int]) -> list[Level]:
    """The tile of a block in the product, and the part of a warp or a thread in it; none where extents are dynamic."""
    if 0 in extents or not {"bm", "bn", "bk"} <= sizes.keys():
        return []
    block = sizes["bm"], sizes["bn"], sizes["bk"]
    found = [Level(f"the product, {'×'.join(map(str, extents))}", *extents, _inside(block, extents), "a block's tile")]
    for rows, columns, who in _PARTS:
        if {rows, columns} <= sizes.keys():
            part = sizes[rows], sizes[columns]
            count = block[0] // part[0] * (block[1] // part[1])
            title = f"a block's tile, {block[0]}×{block[1]}×{block[2]}"
            found.append(Level(title, *block, (*part, block[2]), f"shared by {count} {who}s, {part[0]}×{part[1]} each"))
            break
    if sizes.get("consumers"):
        found.append(_consumers(block, sizes))
    return found


def _consumers(block: tuple[int, int, int], sizes: Mapping[str, int]) -> Level:
    """The tile of a block whose warp groups multiply from shared memory, while another one has it filled."""
    count, taken = sizes["consumers"], bool(sizes.get("pingpong"))
    m, n, k = block
    part = (m, n, k) if taken or count == 1 else (m // count, n, k)
    who = "one warp group" if count == 1 else f"{count} warp groups in turn" if taken else f"{count} warp groups"
    return Level(f"a block's tile, {m}×{n}×{k}", m, n, k, part, f"multiplied by {who}; another one copies")


def _inside(block: tuple[int, int, int], extents: tuple[int, int, int]) -> tuple[int, int, int]:
    m, n, k = (min(each, most) for each, most in zip(block, extents, strict=True))
    return m, n, k


def boxes_in(boxes: Sequence[Box], stages: int) -> list[Buffer]:
    """The tiles of A and B in shared memory of a kernel that copies boxes, which hardware swizzles."""
    copied = [each for each in boxes if each.operand < len("AB") and each.swizzle // PIECE >= _FEWEST]
    return [Buffer(stages, each.shape[-2], each.swizzle // PIECE) for each in copied]


def drawings(
    extents: tuple[int, int, int], sizes: Mapping[str, int], texts: Mapping[str, str], boxes: Sequence[Box] = ()
) -> list[Drawing]:
    """Tiles, pipeline and banks of a kernel.

    Args:
        extents: M, N and K; 0 where they are dynamic.
        sizes: The schedule's.
        texts: Those of the stages.
        boxes: How its operands are copied, where tensor maps say it.
    """
    stages = sizes.get("stages", 1)
    drawn, shared = levels(extents, sizes), buffers(texts.get("threads", "")) + boxes_in(boxes, stages)
    made = [_level(each) for each in drawn]
    made += [pipeline(stages)] if stages > 1 else []
    named = (
        zip(shared, "AB", strict=True) if len(shared) == len("AB") else ((each, "") for each in dict.fromkeys(shared))
    )
    return made + [banks(buffer, name) for buffer, name in named]


def svg(drawn: Sequence[Drawing]) -> str:
    """Drawings below one another."""
    parts, height, width = list[str](), 0.0, 200.0
    for text, wide, tall in drawn:
        parts.append(f'<g transform="translate(0 {height:.1f})">{text}</g>')
        height, width = height + tall + 14, max(width, wide)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' role="img" aria-label="Tiles, pipeline and banks of the kernel" font-family="system-ui, sans-serif" font-size="12">'
        f"{''.join(parts)}</svg>\n"
    )


def _level(drawn: Level) -> Drawing:
    """A level of `blocks`, and how large its drawing is."""
    text = blocks.svg([drawn])
    width, height = (float(each) for each in re.findall(r'viewBox="0 0 (\d+) (\d+)"', text)[0])
    return text, width, height


def pipeline(stages: int) -> Drawing:
    """The slots over steps along K: a tile is multiplied from one while copies to the others are in flight."""
    steps = stages + _AFTER
    title = f"{stages} slots over steps along K: copies in flight, and the slot that is multiplied"
    parts = [_text(0, 13, title, bold=True)]
    for step in range(steps):
        parts.append(_text(70 + step * _CELL + 4, 32, str(step)))
    for slot in range(stages):
        y = _TOP + slot * _HEIGHT
        parts.append(_text(0, y + 14, f"slot {slot}"))
        for step in range(steps):
            multiplied = step % stages == slot
            color, opacity = ("#2a66c8", 0.75) if multiplied else ("#1c8f7a", 0.25)
            what = f"step {step}: {'multiplied' if multiplied else 'a copy is in flight'}"
            parts.append(_cell(70 + step * _CELL, y, color, opacity, what))
    return "".join(parts), max(70 + steps * _CELL, len(title) * 6.8), _TOP + stages * _HEIGHT


def banks(buffer: Buffer, name: str) -> Drawing:
    """In which banks the pieces of eight rows lie: those of one column, which eight threads read together, are colored by piece."""
    among = BANKS // PIECE
    how = "swizzled" if buffer.is_swizzled else "padded by a piece"
    hit = {buffer.bank_of(row, 0) for row in range(_ROWS)}
    what = "without a conflict" if len(hit) == _ROWS else f"with {_ROWS // len(hit)} conflicts"
    title = f"Rows of {name or 'a tile'} in shared memory, {how}: piece 0 of {_ROWS} rows is read {what}"
    parts = [_text(0, 13, title, bold=True)]
    for bank in range(among):
        parts.append(_text(70 + bank * _CELL + 2, 32, str(bank * PIECE // 4)))
    for row in range(_ROWS):
        y = _TOP + row * _HEIGHT
        parts.append(_text(0, y + 14, f"row {row}"))
        for piece in range(buffer.pieces):
            if piece >= among:
                break
            x = 70 + buffer.bank_of(row, piece) * _CELL
            first = piece == 0
            parts.append(_cell(x, y, "#dd7a1f" if first else "#5b6472", 0.75 if first else 0.15, f"piece {piece}"))
            parts.append(_text(x + 9, y + 14, str(piece)))
    return "".join(parts), max(70 + among * _CELL, len(title) * 6.8), _TOP + _ROWS * _HEIGHT


def _cell(x: float, y: float, color: str, opacity: float, what: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{_CELL - 2:.1f}" height="{_HEIGHT - 2:.1f}" fill="{color}"'
        f' fill-opacity="{opacity}"><title>{what}</title></rect>'
    )


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor"{weight}>{text}</text>'
