# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A warp's part of C on its way to memory: through shared memory, from where boxes are copied while the warp goes on.

Upstream stores what a thread has, each thread by itself.

Before, in each thread: ``C[its rows, its columns] <- part, as far as they are inside``. After, in each warp, for a box at a time, and
with two places in shared memory for boxes::

    await that all copies but the last one have been read from shared memory;  the warp's threads meet
    place <- part, swizzled                              # stmatrix, of 16-bit elements
    fence between the threads' stores and the copies;    the warp's threads meet
    one thread: begin the copy of place to C             # TMA leaves out what is outside of C

Source: the PTX ISA manual, "stmatrix", "cp.async.bulk.tensor" and "Async proxy".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, div_rem, mul, value
from tilewright.build.loops import when
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import elected, meet_warp
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm, vector
from tilewright.schedules.gpu.warpgroup import WarpGroupTile, box_of_c, place_of_c

_MOST_PLACES = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sums of a thread that are finished at once.

    Attributes:
        group: Which 64 rows of the consumer's they are of.
        eights: Of these, which groups of 8 columns.
    """

    group: int
    eights: tuple[int, ...]


class BoxStores:
    """Places for boxes of C in shared memory, and how they are filled and emptied. Code for the threads of consumers."""

    def __init__(
        self,
        sizes: WarpGroupTile,
        element: ir.Type,
        box: Box,
        tensor: ir.Value,
        places: tuple[ir.Value, int] | None = None,
        *,
        every: bool = False,
    ) -> None:
        """Makes it for C of such elements, of which `tensor` is the tensor map for that box.

        `places` is memory that boxes may lie in, and how many bytes of it each consumer has; None for memory of their own. With `every`,
        each box of a warp's part has a place of its own.
        """
        self.box = box
        self._swapped, self._element, self._tensor = sizes.swapped, element, tensor
        self._bytes = bits_of(element) // 8
        outer, inner = box.shape[-2:]
        self._pitch = inner * self._bytes
        along = outer if sizes.swapped else inner
        self.eights = along // 8
        """Groups of 8 columns of instructions in a box."""
        boxes = sizes.groups * sizes.across // along
        # Boxes take turns with the places; where blocks share a tile's boxes, each has too few of them to know their number here.
        self.places = boxes if every else gcd(boxes, _MOST_PLACES) if sizes.split == 1 else 1
        """Places for boxes of a warp, which take turns."""
        self.bytes = outer * self._pitch
        """Of a box."""
        self._size = place_of_c((outer, inner), self._bytes)
        own = 4 * self.places * self._size
        self._memory, self._stride = places or (shared.allocate(sizes.consumers * own), own)
        assert own <= self._stride, "a consumer's boxes fit to where they may lie"
        self._count = 0

    @staticmethod
    def box_of(sizes: WarpGroupTile, element: ir.Type, operand: int) -> Box:
        """The box for C of such elements, which is that operand; where C is computed as its transpose, it is not swizzled."""
        bytes_ = bits_of(element) // 8
        shape = box_of_c(sizes, bytes_)
        return Box(operand, shape, 0 if sizes.swapped else shape[1] * bytes_)

    def start(self, warp: Index, lane: Index) -> None:
        """Says who the thread is: which warp among the consumers', and which thread of it."""
        self._lane = lane
        consumer, warp = div_rem(warp, 4)
        self._own = add(mul(consumer, self._stride), mul(warp, self.places * self._size))

    def begin(self) -> None:
        """Waits for a place to be free."""
        nvvm.cp_async_bulk_wait_group(self.places - 1, read=True)
        meet_warp()
        self._turn()

    def _turn(self) -> None:
        """Goes on to the next place."""
        self._place = self._place_of(self._count % self.places)
        self._count += 1

    def _place_of(self, number: int) -> Index:
        """Where one of the warp's places is."""
        return add(self._own, number * self._size)

    def put(self, chunk: Chunk, part: ir.Value) -> None:
        """Writes a thread's part of some of a box to its place."""
        first = chunk.eights[0] // self.eights * self.eights
        if bits_of(self._element) == 16:
            for at in range(0, len(chunk.eights), 2):
                pair = chunk.eights[at : at + 2]
                self._put_matrices([self._registers(part, at + number) for number in range(len(pair))], pair[0] - first)
            return
        for number, eight in enumerate(chunk.eights):
            self._put_elements(part, number, eight - first)

    def end(self, at: Sequence[Index]) -> None:
        """Begins the copy of the box to C, where its first element has those indices."""
        fence_copies()
        meet_warp()
        with when(elected()):
            coordinates = [shared.as_i32(each) for each in reversed(at)]
            source = shared.pointer(self._memory, self._place)
            nvvm.cp_async_bulk_tensor_global_shared_cta(self._tensor, source, coordinates)
            nvvm.cp_async_bulk_commit_group()

    def finish(self) -> None:
        """Waits until all boxes have been read from shared memory, which ends with the block; what they write does not."""
        nvvm.cp_async_bulk_wait_group(0, read=True)

    def _registers(self, part: ir.Value, number: int) -> list[ir.Value]:
        """Two registers of pairs of elements: of 8 columns of instructions, in the upper and the lower 8 rows."""
        pair = ir.VectorType.get([2], self._element)
        pairs = []
        for half in (0, 1):
            if self._swapped:
                elements = [vector.extract(part, [], [2 * number + each, half]) for each in (0, 1)]
                pairs.append(vector.from_elements(pair, elements))
            else:
                row = vector.extract(part, [], [half])
                pairs.append(vector.extract_strided_slice(pair, row, [2 * number], [2], [1]))
        word = ir.VectorType.get([1], ir.IntegerType.get_signless(32))
        return [vector.extract(vector.bitcast(word, each), [], [0]) for each in pairs]

    def _put_matrices(self, registers: Sequence[Sequence[ir.Value]], eight: int) -> None:
        """Two or four 8x8 matrices: lane i gives the address of row i % 8 of matrix i / 8."""
        matrix, row = div_rem(self._lane, 8)
        right, below = div_rem(matrix, 2)
        if len(registers) == 1:
            right = 0
        if self._swapped:
            outer = add(mul(right, 8), row)
            offset = add(mul(outer, self._pitch), mul(below, 16))
            place = add(offset, eight * 8 * self._pitch)
        else:
            outer = add(mul(below, 8), row)
            place = self._swizzled(outer, eight * 16, mul(right, 16))
        layout = "col" if self._swapped else "row"
        nvvm.stmatrix(
            shared.pointer(self._memory, add(self._place, place)),
            [each for pair in registers for each in pair],
            ir.Attribute.parse(f"#nvvm.mma_layout<{layout}>"),
            ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
            ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
        )

    def _put_elements(self, part: ir.Value, number: int, eight: int) -> None:
        """What a thread has of 8 columns of instructions: two neighbors in each of two rows."""
        for (row, column), width, offset in self._neighbors(number, eight):
            elements = [vector.extract(part, [], [row, column + each]) for each in range(width)]
            self._store(vector.from_elements(ir.VectorType.get([width], self._element), elements), offset)

    def _neighbors(self, number: int, eight: int) -> Iterator[tuple[tuple[int, int], int, Index]]:
        """Where a thread's part has 8 columns of instructions, the `number`-th of it: neighbors, how many, and where they are in a box."""
        group, place = div_rem(self._lane, 4)
        for half in (0, 1):
            if self._swapped:
                for each in (0, 1):
                    outer, inner = add(mul(place, 2), eight * 8 + each), add(group, half * 8)
                    offset = add(mul(outer, self._pitch), mul(inner, self._bytes))
                    yield (2 * number + each, half), 1, offset
                continue
            offset = self._swizzled(group, eight * 8 * self._bytes, mul(place, 2 * self._bytes))
            yield (half, 2 * number), 2, add(offset, half * 8 * self._pitch)

    def _store(self, neighbors: ir.Value, offset: Index) -> None:
        """Writes a few elements as one number of as many bits: LLVM does not know every type of elements."""
        word = ir.IntegerType.get_signless(ir.VectorType(neighbors.type).shape[0] * bits_of(self._element))
        number = vector.extract(vector.bitcast(ir.VectorType.get([1], word), neighbors), [], [0])
        llvm.store(number, shared.pointer(self._memory, add(self._place, offset)))

    def _load(self, offset: Index, count: int, element: ir.Type) -> list[ir.Value]:
        """Reads a few neighbors."""
        word = ir.IntegerType.get_signless(count * bits_of(element))
        number = llvm.load(word, shared.pointer(self._memory, add(self._place, offset)))
        one = vector.from_elements(ir.VectorType.get([1], word), [number])
        neighbors = vector.bitcast(ir.VectorType.get([count], element), one)
        return [vector.extract(neighbors, [], [each]) for each in range(count)]

    def _swizzled(self, row: Index, known: int, further: Index) -> Index:
        """Where in a box `known` + `further` bytes of a row are; the two have no bits in common."""
        pattern = arith.andi(arith.shrui(value(mul(row, self._pitch)), value(7)), value(self.box.swizzle // 16 - 1))
        turned = arith.xori(value(further), arith.shli(pattern, value(4))) if self.box.swizzle else value(further)
        return add(mul(row, self._pitch), arith.xori(turned, value(known)))


def fence_copies() -> None:
    """What a thread has done in shared memory is done for copies of boxes that are begun later."""
    nvvm.fence_proxy(
        ir.Attribute.parse("#nvvm.proxy_kind<async.shared>"), space=ir.Attribute.parse("#nvvm.shared_space<cta>")
    )
