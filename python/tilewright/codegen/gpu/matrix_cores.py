# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Waves multiply with AMD's matrix instructions: MFMA of the Instinct line (CDNA), WMMA of the Radeon line (RDNA 3).

Sources of all layouts: AMD Matrix Instruction Calculator; AMD Instinct MI300 Instruction Set Architecture, chapter 7; AMD RDNA3
Instruction Set Architecture, chapter 7.9. Of every instruction, a lane has neighbors along K of one row of A and of one column of B,
both the lane's number modulo 16, and of the product some of one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import ClassVar

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, div, div_rem, mul, rem
from tilewright.codegen.gpu.fragments import Part, Staged
from tilewright.codegen.gpu.staging import PIECE_BYTES, Tile
from tilewright.errors import ScheduleError
from tilewright.lowering.types import double_functions
from tilewright.mlir import ir
from tilewright.mlir.dialects import memref, vector
from tilewright.schedules.gpu.matrix_cores import WaveTile
from tilewright.schedules.steps.block_tile import INSTRUCTION, with_sizes
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


@dataclass(frozen=True, slots=True)
class Instruction:
    """One matrix instruction, of 16 rows and columns.

    Attributes:
        op: The op of MLIR's AMDGPU dialect.
        k: Depth.
        items: Elements of A, and of B, that a lane has: neighbors along K.
        sums: Elements of the product that a lane has.
        step: Rows between two of them.
        high: Whether lanes from the 16th on have elements of A and B further along K. If not, they have those of the first 16 again.
    """

    op: str
    k: int
    items: int
    sums: int
    step: int
    high: bool

    @property
    def swapped(self) -> bool:
        """Whether B's fragment is given in place of A's, and A's in place of B's: neighboring sums are then of one row of C."""
        return self.step == 1

    def first(self, lane: Index) -> Index:
        """The first row of a lane's sums."""
        return mul(div(lane, INSTRUCTION), self.sums if self.step == 1 else 1)


def _mfma(k: int, items: int, step: int = 1) -> Instruction:
    return Instruction("amdgpu.mfma", k, items, sums=4, step=step, high=True)


_WMMA = Instruction("amdgpu.wmma", 16, 16, sums=8, step=2, high=False)
INSTRUCTIONS: Mapping[str, Mapping[str, Instruction]] = MappingProxyType(
    {
        "mfma": {
            "f16": _mfma(16, 4),
            "bf16": _mfma(16, 4),
            "i8": _mfma(32, 8),
            "f32": _mfma(4, 1),
            "f64": _mfma(4, 1, step=4),
        },
        "wmma": dict.fromkeys(("f16", "bf16", "i8", "u8"), _WMMA),
    }
)
"""By the feature of a target's, and the element type of A and B. Both fp8 formats of gfx942 are others than f8E4M3FN and f8E5M2
(they have no negative zero, and another bias): elements of those are widened to bf16 on the way to the local data share."""


def instructions(target: GpuTarget) -> Mapping[str, Instruction]:
    """Those of a target, by element type."""
    return next((rows for name, rows in INSTRUCTIONS.items() if name in target.instructions), {})


def does(spec: MatmulSpec, target: GpuTarget) -> bool:
    """Whether a target has an instruction for the types that are multiplied: of a and b of one width.

    Not with functions of f64 behind them: LLVM crashes on the code of so many sums and the polynomials.
    """
    if double_functions.of(spec):
        return False
    rows = instructions(target)
    return rows.get(spec.a_type.name) is not None and rows.get(spec.a_type.name) == rows.get(spec.b_type.name)


_STEP_BITS = 512
"""Of a row of A that a step over K takes."""
_LARGE = {"bm": 256, "bn": 256, "wm": 128}
"""Large blocks."""


def _large_blocks(spec: MatmulSpec) -> int:
    """How many large blocks there are of a product; none where extents are dynamic."""
    extents = (spec.m, spec.n, *spec.batch)
    if not all(isinstance(each, int) for each in extents):
        return 0
    return prod((-(-spec.m // _LARGE["bm"]), -(-spec.n // _LARGE["bn"]), *spec.batch))


def sizes(spec: MatmulSpec, target: GpuTarget, given: Mapping[str, int]) -> WaveTile:
    """The sizes for a product, with some given by name.

    Waves of 32 threads have half of the usual rows, f64 half of the rows and columns, and so have several products, so that sums take
    64 registers of a thread. Steps over K take 64 bytes of a row, so that two slots of tiles fit, in pieces that a lane loads at once.
    Where blocks of four times the size are as many as the chip has processors, they are taken: their waves have 128 sums a thread
    and read three quarters of the bytes for each product, and blocks half of them.

    Raises:
        ScheduleError: A name is unknown, or sizes do not fit together or the target.
    """
    usual = {"wm": 32 if target.warp == 32 or spec.a_type.bits == 64 else 64, "wave": target.warp}
    usual |= {"bk": max(16, _STEP_BITS // spec.a_type.bits)}
    if spec.a_type.bits == 64:
        usual |= {"bm": 64}
    if spec.products > 1:
        usual |= {"bn": 64, "wm": usual["wm"] // 2}
    elif target.processors and spec.a_type.bits <= 16 and _large_blocks(spec) >= target.processors:
        usual |= _LARGE
    made = with_sizes(WaveTile, {**usual, **given})
    check(spec, target, made)
    return made


def check(spec: MatmulSpec, target: GpuTarget, sizes: WaveTile) -> None:
    """Raises `ScheduleError` unless instructions of the target make up a step over K of tiles of these sizes."""
    depth = instructions(target)[spec.a_type.name].k
    if sizes.bk % depth or sizes.wave != target.warp:
        raise ScheduleError(
            f"bk={sizes.bk}, wave={sizes.wave}",
            where="schedule parameters",
            expected=f"bk a multiple of {depth}, and the waves of {target.warp} threads that {target.name} has",
        )


@dataclass(slots=True)
class MatrixCores:
    """A `parts.Multiplier`: a wave has a rectangle of the tile, a thread of it what the instructions leave it.

    Attributes:
        sizes: The strategy's.
        a: Element type of A.
        b: Element type of B.
        instruction: The instruction.
    """

    sizes: WaveTile
    a: str
    b: str
    instruction: Instruction
    _lane: Index = field(default=0, init=False)
    _at: tuple[Index, Index] = field(default=(0, 0), init=False)
    """The first row and column of the wave's part."""
    swizzles: ClassVar[bool] = True
    copies: ClassVar[bool] = False  # None moves more than four bytes of a thread, and none pads rows.

    @property
    def part(self) -> Part:
        """Of every 16 rows one, and of 16 columns some neighbors; or of every 16 columns one, and of 16 rows some."""
        one = self.instruction
        down, across = range(0, self.sizes.wm, INSTRUCTION), range(0, self.sizes.wn, INSTRUCTION)
        if one.swapped:
            return Part(tuple(down), tuple((column, one.sums) for column in across))
        rows = tuple(row + each * one.step for row in down for each in range(one.sums))
        return Part(rows, tuple((column, 1) for column in across))

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """Waves lie side by side along the rows of the tile."""
        wave, self._lane = div_rem(thread, self.sizes.wave)
        down, right = div_rem(wave, self.sizes.bn // self.sizes.wn)
        self._at = mul(down, self.sizes.wm), mul(right, self.sizes.wn)
        own, first = rem(self._lane, INSTRUCTION), self.instruction.first(self._lane)
        return (
            (add(self._at[0], own), add(self._at[1], first))
            if self.instruction.swapped
            else (add(self._at[0], first), add(self._at[1], own))
        )

    def is_swapped(self, operand: int, element: ir.Type, neighbors: int) -> bool:
        """Neighbors along K are wanted, where a lane has several."""
        return neighbors == 0 if self.instruction.items == 1 else operand == 1

    def takes(self, operand: int, element: ir.Type) -> bool:
        """Those of the instruction."""
        name = (self.a, self.b)[operand]
        return str(element) == ("i8" if name == "u8" else name)

    def multiply(self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """Multiplies with matrix instructions.

        Before: ``sums += tile_a * tile_b``. After, for each step of an instruction's depth::

        fragments of A for each 16 rows of the wave, of B for each 16 columns
        for each 16 rows, for each 16 columns: sums[...] = mfma(fragment, fragment, sums[...])
        """
        one, (wm, wn) = self.instruction, (self.sizes.wm, self.sizes.wn)
        kind = ir.VectorType.get([one.sums], ir.VectorType(sums.type).element_type)
        blocks = [(row, column) for row in range(wm // INSTRUCTION) for column in range(wn // INSTRUCTION)]
        held = {at: self._block(sums, at, kind) for at in blocks}
        together = self._together(a.tile, a.tile.shape[1])
        for k in range(0, a.tile.shape[1], one.k * together):
            rows = [
                self._fragments(a.tile, slot, add(self._at[0], each * INSTRUCTION), k, 0)
                for each in range(wm // INSTRUCTION)
            ]
            columns = [
                self._fragments(b.tile, slot, add(self._at[1], each * INSTRUCTION), k, 1)
                for each in range(wn // INSTRUCTION)
            ]
            for number in range(together):
                for row, column in blocks:
                    held[row, column] = self._product(rows[row][number], columns[column][number], held[row, column])
        return self._joined(held, sums.type)

    def _block(self, sums: ir.Value, at: tuple[int, int], kind: ir.Type) -> ir.Value:
        """A lane's sums of one instruction."""
        count, (row, column) = self.instruction.sums, at
        if self.instruction.swapped:
            whole = vector.extract(sums, [], [row])
            return vector.extract_strided_slice(kind, whole, [column * count], [count], [1])
        return vector.from_elements(
            kind, [vector.extract(sums, [], [row * count + each, column]) for each in range(count)]
        )

    def _joined(self, held: Mapping[tuple[int, int], ir.Value], kind: ir.Type) -> ir.Value:
        """All sums of a lane, from those of its instructions."""
        height, width = ir.VectorType(kind).shape
        count = self.instruction.sums

        def place(row: int, column: int) -> tuple[tuple[int, int], int]:
            if self.instruction.swapped:
                return (row, column // count), column % count
            return (row // count, column), row % count

        elements = []
        for row in range(height):
            for column in range(width):
                block, number = place(row, column)
                elements.append(vector.extract(held[block], [], [number]))
        return vector.from_elements(kind, elements)

    def _together(self, tile: Tile, depth: int) -> int:
        """How many instructions have their elements of A, and of B, loaded at once: as many as a lane's make up a piece.

        Which elements along K an instruction takes does not matter, if it takes the same ones of A and of B. So the first one
        takes the first ones of each lane's piece, the next one the next ones.
        """
        one = self.instruction
        bytes_ = one.items * bits_of(ir.MemRefType(tile.buffer.type).element_type) // 8
        most = max(1, PIECE_BYTES // bytes_) if one.items > 1 else 1
        return next(count for count in range(most, 0, -1) if depth % (count * one.k) == 0)

    def _fragments(self, tile: Tile, slot: Index, first: Index, k: int, axis: int) -> list[ir.Value]:
        """A lane's elements of A (axis 0) or B (axis 1) for the 16 rows, or columns, from `first` on, of several instructions."""
        one, depth = self.instruction, tile.shape[1 - axis]
        together = self._together(tile, depth)
        count = one.items * together
        group, own = div_rem(self._lane, INSTRUCTION)
        along = add(mul(group, count), k) if one.high else k
        across = add(first, own)
        element = ir.MemRefType(tile.buffer.type).element_type
        if one.items == 1:
            row, column = (across, along) if axis == 0 else (along, across)
            return [memref.load(tile.buffer, tile.at(slot, row, column))]
        piece = min(count, PIECE_BYTES * 8 // bits_of(element))
        loaded = []
        for start in range(0, count, piece):
            here = add(along, start)
            row, column = (across, here) if axis == 0 else (here, across)
            kind = ir.VectorType.get([piece], element)
            loaded.append(
                vector.load(kind, tile.buffer, tile.at(slot, row, column), alignment=piece * bits_of(element) // 8)
            )
        kind = ir.VectorType.get([one.items], element)
        if piece < one.items:
            elements = [vector.extract(each, [], [number]) for each in loaded for number in range(piece)]
            return [vector.from_elements(kind, elements)]
        return [
            vector.extract_strided_slice(kind, each, [start], [one.items], [1])
            for each in loaded
            for start in range(0, piece, one.items)
        ]

    def _product(self, a: ir.Value, b: ir.Value, sums: ir.Value) -> ir.Value:
        """One instruction."""
        one, word = self.instruction, ir.IntegerType.get_signless(32)
        given = {"m": INSTRUCTION, "n": INSTRUCTION, "k": one.k}
        given |= {"blocks": 1, "cbsz": 0, "abid": 0} if one.op == "amdgpu.mfma" else {"subwordOffset": 0}
        attributes: dict[str, ir.Attribute] = {name: ir.IntegerAttr.get(word, each) for name, each in given.items()}
        if one.op == "amdgpu.mfma":
            attributes["blgp"] = ir.Attribute.parse("#amdgpu<mfma_perm_b none>")
        else:
            unsigned = (("unsignedA", self.a), ("unsignedB", self.b))
            attributes |= {name: ir.UnitAttr.get() for name, each in unsigned if each == "u8"}
        factors = [b, a] if one.swapped else [a, b]
        return ir.Operation.create(
            one.op, results=[sums.type], operands=[*factors, sums], attributes=attributes
        ).results[0]
