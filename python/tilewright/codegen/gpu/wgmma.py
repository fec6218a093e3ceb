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
class Instruction:
    """A form of the instruction.

    Attributes:
        columns: How many columns it has.
        types: PTX's names of the types of both matrices.
        element: Type of the sums.
        along_k: Whether rows of the first matrix, and columns of the second one, lie along K in shared memory.
    """

    columns: int
    types: tuple[str, str]
    element: ir.Type
    along_k: tuple[bool, bool] = (True, True)

    @property
    def count(self) -> int:
        """Sums of 64 rows that a thread has: by 8 columns two of a row, and two of the row 8 below."""
        return ROWS * self.columns // 128

    @property
    def kind(self) -> ir.Type:
        """Type of the sums of a thread."""
        return ir.Type.parse(f"!llvm.struct<({', '.join([str(self.element)] * self.count)})>")

    def zeros(self) -> ir.Value:
        """Sums to begin with."""
        return ir.Operation.create("llvm.mlir.zero", results=[self.kind]).results[0]

    def elements(self, sums: ir.Value) -> list[ir.Value]:
        """A thread's sums, one by one."""
        return [llvm.extractvalue(self.element, sums, [number]) for number in range(self.count)]

    def of_elements(self, elements: Sequence[ir.Value]) -> ir.Value:
        """Sums of such that were taken one by one."""
        sums = ir.Operation.create("llvm.mlir.poison", results=[self.kind]).results[0]
        for number, element in enumerate(elements):
            sums = llvm.insertvalue(sums, element, [number])
        return sums

    def begin(self, a: ir.Value, b: ir.Value, sums: ir.Value | None, depth: int) -> ir.Value:
        """Begins one, `depth` elements deep, of matrices in shared memory that descriptors describe; no `sums`: its product is the sum."""
        some = "zero" if sums is None else "one"
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        # Rows of the first matrix and columns of the second one lie along K as the instruction has it, or, of 16 bits, across.
        layouts = ["row" if self.along_k[0] else "col", "col" if self.along_k[1] else "row"]
        layout_a, layout_b = (ir.Attribute.parse(f"#nvvm.mma_layout<{each}>") for each in layouts)
        type_a, type_b, type_sum = (
            ir.Attribute.parse(f"#nvvm.wgmma_type<{each}>") for each in (*self.types, self._sum_type)
        )
        return nvvm.wgmma_mma_async(
            self.kind,
            self._begun(sums),
            a,
            b,
            ir.Attribute.parse(f"#nvvm.shape<m = {ROWS}, n = {self.columns}, k = {depth}>"),
            type_a,
            type_b,
            type_sum,
            ir.Attribute.parse(f"#nvvm.wgmma_scale_out<{some}>"),
            one,
            one,
            layout_a,
            layout_b,
        )

    def begin_held(self, a: Sequence[ir.Value], b: ir.Value, sums: ir.Value, depth: int) -> ir.Value:
        """The same for 16-bit elements of the first matrix in four registers: upstream's op takes descriptors only."""
        count = self.count
        taken = ", ".join(f"${number}" for number in range(count))
        held = ", ".join(f"${2 * count + number}" for number in range(len(a)))
        last, across = 2 * count + len(a), int(not self.along_k[1])
        name = f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.columns}k{depth}.{self._sum_type}.{'.'.join(self.types)}"
        # As upstream's op is translated: whether to add, both signs, and how the second matrix lies, are operands.
        text = (
            "{\n.reg .pred p;\n"
            f"setp.ne.b32 p, ${last + 1}, 0;\n"
            f"{name} {{{taken}}}, {{{held}}}, ${last}, p, ${last + 2}, ${last + 3}, ${last + 4};\n}}"
        )
        tied = [str(number) for number in range(count)]
        constraints = [*["=f"] * count, *tied, *["r"] * len(a), "l", *["n"] * 4]
        numbers = [shared.i32(each) for each in (1, 1, 1, across)]
        return llvm.inline_asm(
            self.kind,
            [*self.elements(sums), *a, b, *numbers],
            text,
            ",".join(constraints),
            has_side_effects=True,
        )

    @property
    def _sum_type(self) -> str:
        return "s32" if isinstance(self.element, ir.IntegerType) else "f32"

    def _begun(self, sums: ir.Value | None) -> ir.Value:
        return ir.Operation.create("llvm.mlir.poison", results=[self.kind]).results[0] if sums is None else sums


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
    def instruction(self) -> Instruction:
        """The form that it takes."""
        first, second = self._order
        types = self.types[first], self.types[second]
        along_k = self.tiles[first].along_k, self.tiles[second].along_k
        return Instruction(self.sizes.across, types, self.element, along_k)

    @property
    def _order(self) -> tuple[int, int]:
        """Which operand is the first matrix of instructions, and which the second one."""
        return (1, 0) if self.sizes.swapped else (0, 1)

    def zeros(self) -> list[ir.Value]:
        """Sums to begin with, for each 64 rows of a consumer."""
        return [self.instruction.zeros() for _ in range(self.sizes.groups)]

    def begin(self, slot: ir.Value, row: Index, sums: Sequence[ir.Value] | None) -> list[ir.Value]:
        """Begins the products of a slot, of a consumer's rows from `row` on, as one group of asynchronous instructions.

        Without `sums` they are not added to any.
        """
        nvvm.wgmma_fence_aligned()
        first, second = self._order
        instruction, depth = self.instruction, _DEPTH_BYTES * 8 // self.tiles[0].bits
        starts = [self._descriptor(first, slot, row), self._descriptor(second, slot, 0)]
        results = []
        for group in range(self.sizes.groups):
            sum_ = None if sums is None else sums[group]
            for k in range(0, self.sizes.bk, depth):
                places = self.tiles[first].place(group * ROWS, k), self.tiles[second].place(0, k)
                a, b = (advanced(start, place) for start, place in zip(starts, places, strict=True))
                sum_ = instruction.begin(a, b, sum_, depth)
            results.append(sum_)
        nvvm.wgmma_commit_group_sync_aligned()
        return results

    def begin_held(
        self, slot: ir.Value, fragments: Sequence[Sequence[Sequence[ir.Value]]], k: int, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The same of the first matrix in registers: of each 64 rows, and of each instruction from `k` on, four of a thread."""
        nvvm.wgmma_fence_aligned()
        second = self._order[1]
        depth = _DEPTH_BYTES * 8 // self.tiles[second].bits
        start, results = self._descriptor(second, slot, 0), []
        for held, sum_ in zip(fragments, sums, strict=True):
            for number, registers in enumerate(held):
                b = advanced(start, self.tiles[second].place(0, k + number * depth))
                sum_ = self.instruction.begin_held(registers, b, sum_, depth)
            results.append(sum_)
        nvvm.wgmma_commit_group_sync_aligned()
        return results

    def add(self, sums: Sequence[ir.Value], more: Sequence[ir.Value]) -> list[ir.Value]:
        """Sums of sums, when all products have been waited for."""
        instruction = self.instruction
        results = []
        for sum_, other in zip(sums, more, strict=True):
            result = sum_
            for number in range(instruction.count):
                both = [llvm.extractvalue(self.element, each, [number]) for each in (sum_, other)]
                result = llvm.insertvalue(result, arith.addf(*both), [number])
            results.append(result)
        return results

    def elements(self, sums: ir.Value) -> list[ir.Value]:
        """A thread's sums of 64 rows, by 8 columns: two of a row, and two of the row 8 below."""
        return self.instruction.elements(sums)

    def _descriptor(self, number: int, slot: ir.Value, row: Index) -> ir.Value:
        """The descriptor of an operand's tile in a slot, from a row (or column) on."""
        tile = self.tiles[number]
        stride = sum(each.bytes for each in self.tiles)
        offset = add(mul(slot, stride), add(tile.place(row, 0), self.places[number]))
        return tile.descriptor(shared.address(self.memory, offset))


def advanced(descriptor: ir.Value, place: Index) -> ir.Value:
    """The descriptor of what starts so many bytes further on in the same tile: a known number of them, a multiple of 16."""
    assert isinstance(place, int), "places in a tile are known"
    return arith.addi(descriptor, arith.constant(descriptor.type, place // 16))
