# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warps multiply with matrix instructions (mma.sync). Source of all layouts: the PTX ISA manual, "Matrix Fragments for mma"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, div_rem, mul
from tilewright.codegen.gpu.fragments import Part, Staged
from tilewright.codegen.gpu.mma_types import INSTRUCTIONS, Instruction
from tilewright.codegen.gpu.staging import Tile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, memref, vector
from tilewright.schedules.gpu.mma_sync import WARP, WarpTile

_REGISTER_BITS = 32
_BYTE = 8
_MLIR = {"tf32": "f32", "u8": "i8"}
"""What MLIR calls types of operands, where that is another name."""


@dataclass(slots=True)
class MmaSync:
    """A `parts.Multiplier`: a warp has a rectangle of the tile, a thread of it what the instructions leave it.

    Attributes:
        sizes: The strategy's.
        a: Element type of A, as a row of `INSTRUCTIONS`.
        b: Element type of B.
    """

    sizes: WarpTile
    a: str
    b: str
    _lane: Index = field(default=0, init=False)
    _at: tuple[Index, Index] = field(default=(0, 0), init=False)
    """The first row and column of the warp's part."""
    swizzles: ClassVar[bool] = True
    copies: ClassVar[bool] = True

    @property
    def part(self) -> Part:
        """Of every 8 rows one, of every 8 columns two neighbors."""
        rows = range(0, self.sizes.wm, 8)
        return Part(tuple(rows), tuple((column, 2) for column in range(0, self.sizes.wn, 8)))

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """Warps lie side by side along the rows of the tile; in a warp, groups of four threads have a row of 8 columns."""
        warp, self._lane = div_rem(thread, WARP)
        down, right = div_rem(warp, self.sizes.bn // self.sizes.wn)
        self._at = mul(down, self.sizes.wm), mul(right, self.sizes.wn)
        group, place = div_rem(self._lane, 4)
        return add(self._at[0], group), add(self._at[1], mul(place, 2))

    def is_swapped(self, operand: int, element: ir.Type, neighbors: int) -> bool:
        """Tiles lie as their operands do, but for bytes: of those, neighbors along k are wanted, which make up a register."""
        return operand == 1 if bits_of(element) == _BYTE else neighbors == 0

    def takes(self, operand: int, element: ir.Type) -> bool:
        """Those of the instructions."""
        name = (self.a, self.b)[operand]
        return str(element) in (name, _MLIR.get(name))

    def multiply(self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """Multiplies with matrix instructions.

        Before: ``sums += tile_a * tile_b``. After, for each step of an instruction's depth::

        fragments of A for all rows of the warp, of B for all columns
        for each 16 rows, for each 8 columns: sums[...] = mma(fragment, fragment, sums[...])
        """
        return self._multiplied(a.tile.shape[1], b, slot, sums, partial(self._fragment_of_a, a.tile, slot))

    def multiply_held(self, a: Sequence[Sequence[ir.Value]], b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """The same for A in registers: a thread's elements, in f32, of a product that it has by rows, as another product left them.

        Of the layout of C, two neighboring blocks of 8 columns are that of A's 16 elements along K, where these have 16 bits.
        """
        kind = ir.Type.parse(self.a)

        def fragment(first: int, k: int, instruction: Instruction) -> list[ir.Value]:
            rows = [first // 8 + down for down in range(instruction.m // 8)]
            columns = [2 * (k // 8 + right) for right in range(instruction.k // 8)]
            return [_packed([a[row][column], a[row][column + 1]], kind) for column in columns for row in rows]

        return self._multiplied(b.tile.shape[0], b, slot, sums, fragment)

    def _multiplied(
        self, depth: int, b: Staged, slot: Index, sums: ir.Value, rows_of: Callable[..., list[ir.Value]]
    ) -> ir.Value:
        """The sums with a product added of so many elements along K; `rows_of` gives the registers of A."""
        instruction = INSTRUCTIONS[self.a]
        element = ir.VectorType(sums.type).element_type
        parts = {
            (row, column): vector.extract(sums, [], [row, column])
            for row in range(self.part.shape[0])
            for column in range(self.part.shape[1])
        }
        for k in range(0, depth, instruction.k):
            columns = self._fragments_of_b(b.tile, slot, k, instruction)
            for first in range(0, self.sizes.wm, instruction.m):
                rows = rows_of(first, k, instruction)
                for number, fragment in enumerate(columns):
                    places = [
                        (first // 8 + down, 2 * number + right)
                        for down in range(instruction.m // 8)
                        for right in (0, 1)
                    ]
                    results = _mma(
                        instruction, INSTRUCTIONS[self.b], rows, fragment, [parts[each] for each in places], element
                    )
                    parts |= dict(zip(places, results, strict=True))
        return vector.from_elements(sums.type, list(parts.values()))

    def _fragment_of_a(self, tile: Tile, slot: Index, first: int, k: int, instruction: Instruction) -> list[ir.Value]:
        """The registers of A for an instruction's rows from `first` of the warp's on."""
        row = add(self._at[0], first)
        if _size(tile) == 16:
            down, across = self._place_in_matrices(tile)
            at = add(row, down), add(across, k)
            return _load_matrices(tile, slot, at, transposed=tile.swapped, element=_element(tile))
        group, place = div_rem(self._lane, 4)
        per = _per_register(tile)
        registers = instruction.m * instruction.k // WARP // per
        high = instruction.m // 8
        return [
            _gather(
                tile,
                slot,
                add(row, add(group, number % high * 8)),
                add(mul(place, per), k + number // high * 4 * per),
            )
            for number in range(registers)
        ]

    def _fragments_of_b(self, tile: Tile, slot: Index, k: int, instruction: Instruction) -> list[list[ir.Value]]:
        """The registers of B for each 8 of the warp's columns."""
        if _size(tile) == 16:
            found: list[list[ir.Value]] = []
            down, across = self._place_in_matrices(tile)
            for first in range(0, self.sizes.wn, 16):
                at = add(down, k), add(add(self._at[1], first), across)
                four = _load_matrices(tile, slot, at, transposed=not tile.swapped, element=_element(tile))
                found += [four[:2], four[2:]]
            return found
        group, place = div_rem(self._lane, 4)
        per = _per_register(tile)
        registers = 8 * instruction.k // WARP // per
        return [
            [
                _gather(
                    tile,
                    slot,
                    add(mul(place, per), k + number * 4 * per),
                    add(add(self._at[1], first), group),
                    along_k=0,
                )
                for number in range(registers)
            ]
            for first in range(0, self.sizes.wn, 8)
        ]

    def _place_in_matrices(self, tile: Tile) -> tuple[Index, Index]:
        """Which row a thread gives the address of, for ldmatrix: of four 8x8 matrices, two below one another, twice side by side.

        Returns how far it is from the first element, along both axes of the tile. Rows of the matrices are the buffer's.
        """
        matrix, row = div_rem(self._lane, 8)
        beside, below = div_rem(matrix, 2)
        down, across = mul(below, 8), mul(beside, 8)
        return (down, add(across, row)) if tile.swapped else (add(down, row), across)


def _packed(pair: Sequence[ir.Value], element: ir.Type) -> ir.Value:
    """A register of two numbers of f32 rounded to 16 bits."""
    both = vector.from_elements(ir.VectorType.get([2], ir.F32Type.get()), list(pair))
    rounded = arith.truncf(ir.VectorType.get([2], element), both)
    if isinstance(element, ir.F16Type):
        return rounded
    word = ir.IntegerType.get_signless(_REGISTER_BITS)
    return vector.extract(vector.bitcast(ir.VectorType.get([1], word), rounded), [], [0])


def _element(tile: Tile) -> ir.Type:
    return ir.MemRefType(tile.buffer.type).element_type


def _size(tile: Tile) -> int:
    return bits_of(_element(tile))


def _per_register(tile: Tile) -> int:
    return max(1, _REGISTER_BITS // _size(tile))


def _gather(tile: Tile, slot: Index, row: Index, column: Index, *, along_k: int = 1) -> ir.Value:
    """A register of neighbors along k (axis 1 of A, axis 0 of B) that start at a place of the tile."""
    per, element = _per_register(tile), _element(tile)
    at = tile.at(slot, row, column)
    word = ir.IntegerType.get_signless(_REGISTER_BITS)
    if per == 1:
        element = memref.load(tile.buffer, at)
        return arith.bitcast(word, element) if _size(tile) == _REGISTER_BITS else element
    if tile.swapped != (along_k == 0):
        raise AssertionError("a tile whose neighbors are not along k")
    four = vector.load(ir.VectorType.get([per], element), tile.buffer, at, alignment=_REGISTER_BITS // 8)
    return vector.extract(vector.bitcast(ir.VectorType.get([1], word), four), [], [0])


def _load_matrices(
    tile: Tile, slot: Index, at: tuple[Index, Index], *, transposed: bool, element: ir.Type
) -> list[ir.Value]:
    """Four registers of 8x8 matrices, each thread having given the place of a row of one of them."""
    place = tile.at(slot, *at)
    loaded = ir.Operation.create(
        "nvgpu.ldmatrix",
        results=[ir.VectorType.get([4, 2], element)],
        operands=[tile.buffer, *place],
        attributes={
            "transpose": ir.BoolAttr.get(transposed),
            "numTiles": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        },
    ).results[0]
    if isinstance(element, ir.F16Type):
        return [vector.extract(loaded, [], [number]) for number in range(4)]
    words = vector.bitcast(ir.VectorType.get([4, 1], ir.IntegerType.get_signless(32)), loaded)
    return [vector.extract(words, [], [number, 0]) for number in range(4)]


def _mma(
    first: Instruction,
    second: Instruction,
    a: list[ir.Value],
    b: list[ir.Value],
    sums: list[ir.Value],
    element: ir.Type,
) -> list[ir.Value]:
    """One instruction; the sums of integers wrap around."""
    result = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * len(sums))})>")
    if first.needs == "mma.sync.f8":
        # The op below does not know these types.
        name = f"llvm.nvvm.mma.m{first.m}n8k{first.k}.row.col.f32.{first.type}.{second.type}.f32"
        done = llvm.call_intrinsic(result, ir.StringAttr.get(name), [*a, *b, *sums], [], [])
        return [llvm.extractvalue(element, done, [number]) for number in range(len(sums))]
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(a), len(b), len(sums)]),
        "shape": ir.Attribute.parse(f"#nvvm.shape<m = {first.m}, n = 8, k = {first.k}>"),
        "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>"),
        "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>"),
        "multiplicandAPtxType": ir.Attribute.parse(f"#nvvm.mma_type<{first.type}>"),
        "multiplicandBPtxType": ir.Attribute.parse(f"#nvvm.mma_type<{second.type}>"),
    }
    if isinstance(element, ir.IntegerType):
        attributes["intOverflowBehavior"] = ir.Attribute.parse("#nvvm.mma_int_overflow<wrapped>")
    done = ir.Operation.create("nvvm.mma.sync", results=[result], operands=[*a, *b, *sums], attributes=attributes)
    return [llvm.extractvalue(element, done.results[0], [number]) for number in range(len(sums))]
