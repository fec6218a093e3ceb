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
_ACROSS = frozenset({"f16", "bf16"})
"""Those whose matrices may lie across K."""
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

    def undefined(self) -> ir.Value:
        """Sums of which nothing is known: those that a first product replaces."""
        return ir.Operation.create("llvm.mlir.poison", results=[self.kind]).results[0]

    def begin(
        self, a: ir.Value | Sequence[ir.Value], b: ir.Value, sums: ir.Value, depth: int, adds: ir.Value | bool = True
    ) -> ir.Value:
        """Begins one, `depth` elements deep: the sums are added to, or, where `adds` is 0, replaced, so that nobody has to clear them.

        `a` is the descriptor of a matrix in shared memory, or 16-bit elements of the first matrix in four registers; `b` is a descriptor.
        `adds` is the same in all threads. Upstream's op takes two descriptors, and a constant in its place.
        """
        first = [a] if isinstance(a, ir.Value) else list(a)
        held = first != [a]
        # Behind both matrices: whether to add, both signs, and, of 16-bit elements, how each matrix in shared memory lies.
        flags = [] if isinstance(self.element, ir.IntegerType) else [1, 1]
        if set(self.types) <= _ACROSS:
            flags += [int(not each) for each in self.along_k[held:]]
        count, last = self.count, 2 * self.count + len(first)
        taken = ", ".join(f"${number}" for number in range(count))
        name = f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.columns}k{depth}.{self._sum_type}.{'.'.join(self.types)}"
        matrix = (
            "{" + ", ".join(f"${2 * count + number}" for number in range(len(first))) + "}" if held else f"${2 * count}"
        )
        further = "".join(f", ${last + 2 + number}" for number in range(len(flags)))
        text = (
            f"{{\n.reg .pred p;\nsetp.ne.b32 p, ${last + 1}, 0;\n{name} {{{taken}}}, {matrix}, ${last}, p{further};\n}}"
        )
        kind = "r" if isinstance(self.element, ir.IntegerType) else "f"
        known = isinstance(adds, bool)
        constraints = [f"={kind}"] * count + [str(number) for number in range(count)]
        constraints += ["r" if held else "l"] * len(first) + ["l", "n" if known else "r"] + ["n"] * len(flags)
        return llvm.inline_asm(
            self.kind,
            [
                *self.elements(sums),
                *first,
                b,
                shared.i32(int(adds)) if known else arith.extui(ir.IntegerType.get_signless(32), adds),
                *map(shared.i32, flags),
            ],
            text,
            ",".join(constraints),
            has_side_effects=True,
        )

    @property
    def _sum_type(self) -> str:
        return "s32" if isinstance(self.element, ir.IntegerType) else "f32"


@dataclass(frozen=True, slots=True)
class Products:
    """How a consumer multiplies.

    Attributes:
        sizes: The strategy's.
        tiles: Those of A and of each B in a slot.
        places: How many bytes into a slot each starts.
        memory: The slots.
        types: PTX's names of the types of A and B.
        element: Type of the sums.
    """

    sizes: WarpGroupTile
    tiles: Sequence[BoxedTile]
    places: Sequence[int]
    memory: ir.Value
    types: tuple[str, str]
    element: ir.Type

    @property
    def instruction(self) -> Instruction:
        """The form that it takes."""
        first, second = self._matrices(0)
        types = self.types[first], self.types[second]
        along_k = self.tiles[first].along_k, self.tiles[second].along_k
        return Instruction(self.sizes.across, types, self.element, along_k)

    def _matrices(self, product: int) -> tuple[int, int]:
        """Which operand is the first matrix of instructions of a product, and which the second one."""
        return (1 + product, 0) if self.sizes.swapped else (0, 1 + product)

    def zeros(self) -> list[ir.Value]:
        """Sums of nothing, for each 64 rows of a consumer."""
        return [self.instruction.zeros() for _ in range(self.sizes.summed)]

    def undefined(self) -> list[ir.Value]:
        """Sums that the first products replace, for each 64 rows of a consumer."""
        return [self.instruction.undefined() for _ in range(self.sizes.summed)]

    def begin(
        self, slot: ir.Value, row: Index, sums: Sequence[ir.Value], adds: ir.Value | bool, first: int = 0
    ) -> list[ir.Value]:
        """Begins the products of a slot, of a consumer's rows from `row` on, as one group of asynchronous instructions.

        `sums` are those of each 64 rows, of one product after the other, from the number `first` on; they are replaced where `adds` is 0.
        """
        nvvm.wgmma_fence_aligned()
        instruction, depth = self.instruction, _DEPTH_BYTES * 8 // self.tiles[0].bits
        starts: dict[int, ir.Value] = {}
        results = []
        for number, sum_ in enumerate(sums, first):
            product, group = divmod(number, self.sizes.groups)
            one, other = self._matrices(product)
            for matrix, at in ((one, row), (other, 0)):
                if matrix not in starts:
                    starts[matrix] = self._descriptor(matrix, slot, at)
            result = sum_
            for k in range(0, self.sizes.bk, depth):
                places = self.tiles[one].place(group * ROWS, k), self.tiles[other].place(0, k)
                a, b = (advanced(starts[each], place) for each, place in zip((one, other), places, strict=True))
                result = instruction.begin(a, b, result, depth, adds if k == 0 else True)
            results.append(result)
        nvvm.wgmma_commit_group_sync_aligned()
        return results

    def begin_held(
        self,
        slot: ir.Value,
        fragments: Sequence[Sequence[Sequence[ir.Value]]],
        k: int,
        sums: Sequence[ir.Value],
        adds: ir.Value | bool,
    ) -> list[ir.Value]:
        """The same of the first matrix in registers: of each 64 rows, and of each instruction from `k` on, four of a thread."""
        nvvm.wgmma_fence_aligned()
        second = self._matrices(0)[1]
        depth = _DEPTH_BYTES * 8 // self.tiles[second].bits
        start, results = self._descriptor(second, slot, 0), []
        for held, sum_ in zip(fragments, sums, strict=True):
            result = sum_
            for number, registers in enumerate(held):
                b = advanced(start, self.tiles[second].place(0, k + number * depth))
                result = self.instruction.begin(registers, b, result, depth, adds if number == 0 else True)
            results.append(result)
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
