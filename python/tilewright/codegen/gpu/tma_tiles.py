# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Boxes of matrices, which are copied at once between global and shared memory, and tiles that are made of them.

Source: the PTX ISA manual, "cp.async.bulk.tensor" and "Matrix Descriptor Format" of wgmma.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.build.index import Index, add, mul, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.payload.patch_windows import Window
from tilewright.schedules.gpu.warpgroup import ROW_BYTES

_SWIZZLED_ROWS = 8
"""Rows after which the pattern of a swizzle repeats."""
ATOM, WIDE_ATOM = 16, 32
"""Bytes that a swizzle moves at once, and those of elements of 32 bits that lie across K, of which half as many rows are a pattern."""
ROW_TILE_BYTES = _SWIZZLED_ROWS * ROW_BYTES
"""Bytes of so many rows: how far apart those are that follow, in descriptors of matrices."""


@dataclass(frozen=True, slots=True)
class Box:
    """How an operand is copied: the kernel takes a tensor map of it, for boxes of that shape.

    Attributes:
        operand: Its number among the arrays of a call: the result is the last one.
        shape: Elements of a box, in the order of the array's axes: one of each axis of a batch.
        swizzle: Bytes of the pattern in which its rows are swizzled in shared memory; 0 for none.
        atom: Bytes that the pattern moves at once.
        window: Of a matrix of patches, what its tensor map says of the images, which the array has one after the other.
    """

    operand: int
    shape: tuple[int, ...]
    swizzle: int
    atom: int = ATOM
    window: Window | None = None

    def of_rank(self, axes: int) -> Box:
        """The box for an array of so many axes, of which those of a batch come first."""
        return replace(self, shape=(1,) * (axes - 2) + self.shape)


@dataclass(frozen=True, slots=True)
class BoxedTile:
    """A tile of A or B in shared memory: boxes side by side, whose rows are as long as the swizzle's pattern.

    Attributes:
        operand: Its number among the arrays of a call.
        outer: Rows of a box.
        inner: Elements of a row, which are neighbors in memory.
        count: Boxes.
        along_k: Whether neighbors in memory lie along K.
        bits: Of an element.
        parts: Blocks of a cluster that have one part each of every box copied, to all of them.
    """

    operand: int
    outer: int
    inner: int
    count: int
    along_k: bool
    bits: int
    parts: int

    def box(self, axes: int) -> Box:
        """What is copied at once, of an operand of so many axes."""
        shape = self.outer // self.parts, self.inner // self.packed
        return Box(self.operand, shape, ROW_BYTES, self.atom).of_rank(axes)

    @property
    def packed(self) -> int:
        """Elements that share a byte, of which arrays then are."""
        return max(1, 8 // self.bits)

    @property
    def atom(self) -> int:
        """Bytes that its swizzle moves at once."""
        return ATOM if self.along_k or self.bits < 32 else WIDE_ATOM

    @property
    def box_bytes(self) -> int:
        """Bytes of a box, of all parts."""
        return self.outer * ROW_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of the tile."""
        return self.count * self.box_bytes

    def place(self, index: Index, k: int) -> Index:
        """How many bytes into the tile the element k of a row of A, or column of B, is; `index` is a multiple of 64."""
        if self.along_k:
            box, within = divmod(k * self.bits // 8, ROW_BYTES)
            return add(mul(index, ROW_BYTES), box * self.box_bytes + within)
        # As many rows of A, or columns of B, as a box has side by side.
        per = self.box_bytes // self.inner
        return add(mul(index, per), k * ROW_BYTES)

    def descriptor(self, place: Index) -> ir.Value:
        """The descriptor for instructions of what starts at an address in the tile: its strides, and its swizzle."""
        word = ir.IntegerType.get_signless(64)
        start = arith.index_cast(word, value(place))
        start = arith.shrui(arith.andi(start, arith.constant(word, 0x3FFFF)), arith.constant(word, 4))
        leading = 1 if self.along_k else self.box_bytes // 16
        stride = ROW_TILE_BYTES // 16
        return arith.ori(start, arith.constant(word, (leading << 16) | (stride << 32) | (1 << 62)))


def boxed(operand: int, tile: tuple[int, int], neighbors: int, bits: int, parts: int, *, depth: int) -> BoxedTile:
    """The tile of an operand, of those extents, as the product has it, whose neighbors lie along that axis; K is the axis `depth`."""
    inner = ROW_BYTES * 8 // bits
    count = -(-tile[neighbors] // inner)
    return BoxedTile(operand, tile[1 - neighbors], inner, count, neighbors == depth, bits, parts)
