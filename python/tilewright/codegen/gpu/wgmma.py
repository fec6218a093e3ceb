# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warp groups multiply tiles in shared memory: 64 rows an instruction, asynchronously, sums in registers.

Source of all layouts: the PTX ISA manual, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.build.index import Index, add, mul
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.tma_tiles import BoxedTile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm
from tilewright.schedules.gpu.warpgroup import ROWS, WarpGroupTile

TYPES: Mapping[str, str] = MappingProxyType(
    {
        "f16": "f16",
        "bf16": "bf16",
        "tf32": "tf32",
        "i8": "s8",
        "u8": "u8",
        "f8E4M3FN": "e4m3",
        "f8E5M2": "e5m2",
    }
)
"""PTX's names of the element types that warp groups multiply, and "tf32" for f32 that may be shortened to it."""
_DEPTH_BYTES = 32
"""Bytes of a row of A that one instruction multiplies."""


@dataclass(frozen=True, slots=True)
class Products:
    """How a consumer multiplies.

    Attributes:
        sizes: The strategy's.
        tiles: Those of A and B in a slot.
        places: How many bytes into a slot each starts.
        memory: The slots.
        types: PTX's names of the types of A and B.
        element: Type of the sums.
    """

    sizes: WarpGroupTile
    tiles: tuple[BoxedTile, BoxedTile]
    places: tuple[int, int]
    memory: ir.Value
    types: tuple[str, str]
    element: ir.Type

    @property
    def kind(self) -> ir.Type:
        """Type of the sums of 64 rows that a thread has."""
        count = ROWS * self.sizes.across // 128
        return ir.Type.parse(f"!llvm.struct<({', '.join([str(self.element)] * count)})>")

    def zeros(self) -> list[ir.Value]:
        """Sums to begin with, for each 64 rows of a consumer."""
        return [ir.Operation.create("llvm.mlir.zero", results=[self.kind]).results[0] for _ in range(self.sizes.groups)]

    def begin(self, slot: ir.Value, row: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Begins the products of a slot, of a consumer's rows from `row` on, as one group of asynchronous instructions."""
        nvvm.wgmma_fence_aligned()
        first, second = (1, 0) if self.sizes.swapped else (0, 1)
        depth = _DEPTH_BYTES * 8 // self.tiles[0].bits
        starts = [self._descriptor(first, slot, row), self._descriptor(second, slot, 0)]
        results = []
        for group, sum_ in enumerate(sums):
            for k in range(0, self.sizes.bk, depth):
                places = self.tiles[first].place(group * ROWS, k), self.tiles[second].place(0, k)
                descriptors = [
                    arith.addi(start, arith.constant(start.type, place // 16))
                    for start, place in zip(starts, places, strict=True)
                ]
                sum_ = self._instruction(descriptors, sum_, depth, (first, second))
            results.append(sum_)
        nvvm.wgmma_commit_group_sync_aligned()
        return results

    def add(self, sums: Sequence[ir.Value], more: Sequence[ir.Value]) -> list[ir.Value]:
        """Sums of sums, when all products have been waited for."""
        count = ROWS * self.sizes.across // 128
        results = []
        for sum_, other in zip(sums, more, strict=True):
            result = sum_
            for number in range(count):
                both = [llvm.extractvalue(self.element, each, [number]) for each in (sum_, other)]
                result = llvm.insertvalue(result, arith.addf(*both), [number])
            results.append(result)
        return results

    def elements(self, sums: ir.Value) -> list[ir.Value]:
        """A thread's sums of 64 rows, by 8 columns: two of a row, and two of the row 8 below."""
        count = ROWS * self.sizes.across // 128
        return [llvm.extractvalue(self.element, sums, [number]) for number in range(count)]

    def _descriptor(self, number: int, slot: ir.Value, row: Index) -> ir.Value:
        """The descriptor of an operand's tile in a slot, from a row (or column) on."""
        tile = self.tiles[number]
        stride = sum(each.bytes for each in self.tiles)
        offset = add(mul(slot, stride), add(tile.place(row, 0), self.places[number]))
        return tile.descriptor(shared.address(self.memory, offset))

    def _instruction(
        self, descriptors: Sequence[ir.Value], sums: ir.Value, depth: int, order: tuple[int, int]
    ) -> ir.Value:
        """Begins one instruction."""
        sum_type = "s32" if isinstance(self.element, ir.IntegerType) else "f32"
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        # Rows of the first matrix and columns of the second one lie along K as the instruction has it, or, of 16 bits, across.
        first, second = (self.tiles[number].along_k for number in order)
        layouts = ["row" if first else "col", "col" if second else "row"]
        layout_a, layout_b = (ir.Attribute.parse(f"#nvvm.mma_layout<{each}>") for each in layouts)
        types = [*(self.types[number] for number in order), sum_type]
        type_a, type_b, type_sum = (ir.Attribute.parse(f"#nvvm.wgmma_type<{each}>") for each in types)
        return nvvm.wgmma_mma_async(
            self.kind,
            sums,
            descriptors[0],
            descriptors[1],
            ir.Attribute.parse(f"#nvvm.shape<m = {ROWS}, n = {self.sizes.across}, k = {depth}>"),
            type_a,
            type_b,
            type_sum,
            ir.Attribute.parse("#nvvm.wgmma_scale_out<one>"),
            one,
            one,
            layout_a,
            layout_b,
        )
