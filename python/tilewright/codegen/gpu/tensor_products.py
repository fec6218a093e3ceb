# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One thread multiplies tiles in shared memory: 128 rows an instruction, asynchronously, sums in tensor memory.

Source of all layouts: the PTX ISA manual, "TensorCore 5th Generation Family Instructions": "Instruction descriptor" and
"Shared memory descriptor".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.build.index import Index, add, mul, value
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.tensor_sums import TensorMemory, group_of
from tilewright.codegen.gpu.tma_tiles import ROW_TILE_BYTES, WIDE_ATOM, BoxedTile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, nvvm
from tilewright.schedules.gpu.tensor_memory import LANES, TensorMemoryTile

_DEPTH_BYTES = 32
"""Bytes of a row of A that one instruction multiplies."""
_ADDRESS_UNIT = 16
"""Bytes that addresses and strides in descriptors count."""
_ADDRESS_BITS = 0x3FFFF
_SWIZZLE_128, _SWIZZLE_128_WIDE = 2, 1
"""A descriptor's numbers for rows of 128 bytes that are swizzled, 16 bytes at once, or 32."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A type of elements that instructions multiply.

    Attributes:
        kind: PTX's kind of the instructions.
        number: The type's number in descriptors of instructions of that kind.
    """

    kind: str
    number: int


TYPES: Mapping[str, TensorType] = MappingProxyType(
    {
        "f16": TensorType("f16", 0),
        "bf16": TensorType("f16", 1),
        "tf32": TensorType("tf32", 2),
        "f8E4M3FN": TensorType("f8f6f4", 0),
        "f8E5M2": TensorType("f8f6f4", 1),
        "u8": TensorType("i8", 0),
        "i8": TensorType("i8", 1),
    }
)
"""By element type, and "tf32" for f32 that may be shortened to it."""
_SUMS: Mapping[str, int] = MappingProxyType({"f32": 1, "i32": 2})
"""The numbers of types of sums."""


@dataclass(frozen=True, slots=True)
class TensorProducts:
    """How tiles are multiplied. Code for one thread.

    Attributes:
        sizes: The strategy's.
        tiles: Those of A and B in a slot.
        places: How many bytes into a slot each starts.
        memory: The slots.
        types: The types of A and B, as in `TYPES`.
        element: Type of the sums.
        sums: Where they are.
    """

    sizes: TensorMemoryTile
    tiles: Sequence[BoxedTile]
    places: Sequence[int]
    memory: ir.Value
    types: tuple[str, str]
    element: ir.Type
    sums: TensorMemory

    def begin(self, slot: ir.Value, buffer: ir.Value, adds: ir.Value) -> None:
        """Begins the products of a slot, whose sums go to that tile of sums; `adds`: whether the first ones are added to what is there."""
        first, second = self._order
        kind = ir.Attribute.parse(f"#nvvm.tcgen05_mma_kind<{TYPES[self.types[0]].kind}>")
        group_ = group_of(self._blocks)
        always = arith.constant(ir.IntegerType.get_signless(1), 1)
        depth = _DEPTH_BYTES * 8 // self.tiles[0].bits
        starts = [self._descriptor(first, slot), self._descriptor(second, slot)]
        instruction = shared.i32(self.instruction_descriptor())
        for group in range(self.sizes.down // LANES):
            column = add(mul(buffer, self.sizes.columns), group * self.sizes.across)
            sums = self.sums.pointer(column)
            for k in range(0, self.sizes.bk, depth):
                places = self.tiles[first].place(group * LANES, k), self.tiles[second].place(0, k)
                descriptors = [
                    arith.addi(start, arith.constant(start.type, place // _ADDRESS_UNIT))
                    for start, place in zip(starts, places, strict=True)
                ]
                nvvm.tcgen05_mma(kind, group_, sums, descriptors[0], descriptors[1], instruction, always if k else adds)

    def instruction_descriptor(self) -> int:
        """What an instruction multiplies: types of the sums and of both operands, which of these lie across K, columns and rows."""
        first, second = self._order
        sums = _SUMS["i32" if isinstance(self.element, ir.IntegerType) else "f32"]
        return (
            sums << 4
            | TYPES[self.types[first]].number << 7
            | TYPES[self.types[second]].number << 10
            | (not self.tiles[first].along_k) << 15
            | (not self.tiles[second].along_k) << 16
            | self.sizes.across // 8 << 17
            | self._blocks * LANES // 16 << 24
        )

    @property
    def _blocks(self) -> int:
        """Blocks that an instruction is of."""
        return 2 if self.sizes.pair else 1

    @property
    def _order(self) -> tuple[int, int]:
        """Whose rows are those of instructions, and whose their columns."""
        return (1, 0) if self.sizes.swapped else (0, 1)

    def _descriptor(self, number: int, slot: ir.Value) -> ir.Value:
        """The descriptor of an operand's tile in a slot."""
        tile = self.tiles[number]
        stride = sum(each.bytes for each in self.tiles)
        offset: Index = add(mul(slot, stride), self.places[number])
        start = arith.andi(shared.as_i32(value(shared.address(self.memory, offset))), shared.i32(_ADDRESS_BITS))
        leading = 1 if tile.along_k else tile.box_bytes // _ADDRESS_UNIT
        wide = tile.atom == WIDE_ATOM
        byte, bit = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(1)
        return nvvm.tcgen05_mma_smem_desc(
            ir.IntegerType.get_signless(64),
            arith.shrui(start, shared.i32(_ADDRESS_UNIT.bit_length() - 1)),
            shared.i32(leading),
            shared.i32(ROW_TILE_BYTES // (2 if wide else 1) // _ADDRESS_UNIT),
            arith.constant(byte, 0),
            arith.constant(bit, 0),
            arith.constant(byte, _SWIZZLE_128_WIDE if wide else _SWIZZLE_128),
        )
