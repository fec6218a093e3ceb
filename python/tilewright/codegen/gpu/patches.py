# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions as products: threads read the matrix of patches from the images (implicit im2col), which is never made.

The function of the product says of which images an operand is the matrix of patches. Before: ``a[pixel, k]``. After, in each thread::

    image, i, j = the place of pixel in the result;  u, v, c = that of element k in a filter
    y, x = i * stride - before + u * dilation, j * stride - before + v * dilation
    images[image, y, x, c] where y and x are inside of the image, otherwise 0

Pieces of channels that lie side by side are loaded, or copied ahead of time, at once; others element by element. Copies of boxes
find the elements themselves, from the place of the first one (`place_of_box`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.build.index import Index, add, less, mul, value
from tilewright.build.usedef import defined_by
from tilewright.build.views import subview
from tilewright.codegen.gpu import scattered, staging
from tilewright.codegen.patch_layout import Patches
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.payload.conv2d import PATCHES
from tilewright.schedules.gpu.warpgroup import ROW_BYTES


def of(function: ir.Operation) -> dict[int, Images]:
    """The operands of a product's function that are matrices of patches, by number."""
    if PATCHES not in function.attributes:
        return {}
    operand, found = Patches.of(function.attributes[PATCHES])
    return {operand: Images(found)}


def copied(images: Patches, bits: int) -> str:
    """How patches of images with elements of so many bits are brought to shared memory: in "boxes", or else in "pieces"."""
    return "boxes" if images.in_boxes(bits, ROW_BYTES) else "pieces"


def place_of_box(images: Patches, pixel: Index, k: Index) -> tuple[list[Index], list[Index]]:
    """Where a box of patches is, from `pixel` of the result and element `k` of the patches on, for a copy by coordinates.

    The coordinates of its first pixel at the first element of the filter, channel, column, row and image; and how far from there
    the element of the filter is, to the right and down. Behind the last element channels are none of the image's, so zeros.
    """
    image, top, left = images.places(pixel)
    down, right, channel = images.taps(k)
    inside = less(k, images.depth)
    channel = arith.select(inside, value(channel), value(images.channels))
    offsets = [mul(right, images.dilation[1]), mul(down, images.dilation[0])]
    return [channel, left, top, image], [arith.select(inside, value(each), value(0)) for each in offsets]


@dataclass(frozen=True, slots=True)
class Images:
    """A `scattered.Scattered`: the images of a convolution, as one row of elements.

    Attributes:
        patches: Which element of them each element of the matrix is.
    """

    patches: Patches

    def is_whole(self, width: int) -> bool:
        """Whether so many channels lie side by side, at the same distance from a piece of 16 bytes in each pixel."""
        patches = self.patches
        return patches.rows_are_pixels and not any(each % width for each in (patches.channels, *patches.pitches[:3]))

    def source(self, view: ir.Value, of: scattered.Of, extents: Sequence[Index]) -> scattered.Pieces:
        """The patches that a block's view of the matrix has."""
        first = scattered.start(view, 0, of), scattered.start(view, 1, of)
        return _Pieces(self.patches, _as_row(of(_matrix(view)), self.patches.elements), first, extents)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A `scattered.Pieces` of patches.

    Attributes:
        patches: Which element of the images each element of the matrix is.
        images: The images, as one row of elements.
        first: The first row and column of the view in the matrix.
        extents: How far the view goes.
    """

    patches: Patches
    images: ir.Value
    first: tuple[Index, Index]
    extents: Sequence[Index]

    @property
    def across(self) -> int:
        """Channels are neighbors, or pixels are, of which each is found by itself."""
        return 1

    def place(self, outer: Index, inner: Index, width: int) -> tuple[ir.Value, list[ir.Value]]:
        """The images, and where in them an element is; their first one where the image has no such element."""
        image, y, x, channel = self._coordinates(outer, inner)
        offset = self.patches.offset(image if self.patches.rows_are_pixels else 0, y, x, channel)
        return self.images, [arith.select(self.exists(outer, inner), value(offset), value(0))]

    def exists(self, outer: Index, inner: Index) -> ir.Value:
        """Whether an element is in the view, and of the image: not of the zeros around it."""
        _, y, x, _ = self._coordinates(outer, inner)
        found = [less(index, extent) for index, extent in zip((outer, inner), self.extents, strict=True)]
        # What is above or to the left is below zero, and so larger than every extent.
        found += [less(at, self.patches.extents[axis]) for axis, at in enumerate((y, x)) if self._leaves(axis)]
        return reduce(arith.andi, found)

    def copy(self, tile: staging.Tile, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of channels to the same place of a slot; what is not of the image becomes zero."""
        images, at = self.place(outer, inner, width)
        some = arith.select(self.exists(outer, inner), value(width), value(0))
        staging.begin_copy(images, at, tile, tile.of_rows(slot, outer, inner), width, some)

    def _coordinates(self, outer: Index, inner: Index) -> tuple[Index, Index, Index, Index]:
        """Image, row, column and channel of an element of the view, which may be outside of the image."""
        patches = self.patches
        row, column = (_in_word(add(first, at)) for first, at in zip(self.first, (outer, inner), strict=True))
        pixel, k = (row, column) if patches.rows_are_pixels else (column, row)
        image, top, left = patches.places(pixel)
        down, right, channel = patches.taps(k)
        y, x = add(top, mul(down, patches.dilation[0])), add(left, mul(right, patches.dilation[1]))
        return image, y, x, channel

    def _leaves(self, axis: int) -> bool:
        """Whether filters reach over an edge of the image, along its rows (0) or columns."""
        one = self.patches
        last = (one.results[axis] - 1) * one.stride[axis] + (one.filter[axis] - 1) * one.dilation[axis]
        return one.before[axis] > 0 or last >= one.extents[axis]


def _matrix(view: ir.Value) -> ir.Value:
    """The matrix that a block's view is of: its operand, or one of a batch."""
    op = defined_by(view, "memref.subview")
    if op is None or ir.MemRefType(op.operands[0].type).rank > ir.MemRefType(view.type).rank:
        return view
    return _matrix(op.operands[0])


def _as_row(matrix: ir.Value, elements: int) -> ir.Value:
    """The images, which a call gives as the first row of an operand."""
    kind = ir.MemRefType(matrix.type)
    _, offset = kind.get_strides_and_offset()
    row = ir.MemRefType.get([elements], kind.element_type, ir.StridedLayoutAttr.get(offset, [1]))
    return subview(row, matrix, [0, 0], [1, elements])


def _in_word(index: Index) -> Index:
    """An index that 32 bits are enough for, said so: divisions of 64 bits take several times as long."""
    if isinstance(index, int):
        return index
    word = ir.IntegerType.get_signless(32)
    return arith.index_castui(ir.IndexType.get(), arith.index_cast(word, index))
