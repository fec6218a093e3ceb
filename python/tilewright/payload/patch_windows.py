# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a tensor map says of images of which a box is some patches: pixels of the result down, channels of one element of the filter across.

Copies of such boxes (im2col) go from pixel to pixel of the result over the ends of rows and of images, and take zeros for what lies
outside of an image. Needs no MLIR: kernels from the disk cache are run without.

Source: CUDA Driver API, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

from typing import NamedTuple

_CORNERS = range(-128, 128)
"""How far corners of an image's window may be from those of the image, of images with rows and columns."""
_MOST_OFFSET = 255
"""Of an element of the filter from the first one."""
_MOST_STEP = 8
_ALIGNMENT = 16
"""Bytes of which an image, a row and a pixel are multiples."""


class Window(NamedTuple):
    """What such a tensor map says beside the extents of a box. Of two numbers the first is of rows, the second of columns.

    Attributes:
        extents: Rows, columns and channels of an image.
        pitches: From one image, row and column to the next, in elements.
        lower: Where the patches of an image start, from its first pixel.
        upper: Where the last patches start, from its last pixel.
        steps: From one patch to the next.
    """

    extents: tuple[int, int, int]
    pitches: tuple[int, int, int]
    lower: tuple[int, int]
    upper: tuple[int, int]
    steps: tuple[int, int]

    def images(self, elements: int) -> int:
        """Images that a row of so many elements has, of which the last may end with its last channel."""
        return -(-elements // self.pitches[0])

    def fits(self, bits: int, row_bytes: int, offsets: tuple[int, int]) -> bool:
        """Whether a driver makes such a map, of boxes each of whose rows is of one element of a filter.

        Args:
            bits: Of an element.
            row_bytes: Bytes of a row of a box.
            offsets: How far the last element of a filter is from the first one.
        """
        whole = self.extents[2] * bits % (row_bytes * 8) == 0
        aligned = not any(pitch * bits % (_ALIGNMENT * 8) for pitch in self.pitches)
        return whole and aligned and self.is_described and max(offsets) <= _MOST_OFFSET

    @property
    def is_described(self) -> bool:
        """Whether a map has room for the corners and the steps, and the window has a pixel."""
        corners = all(each in _CORNERS for each in (*self.lower, *self.upper))
        some = all(low < size + high for low, size, high in zip(self.lower, self.extents, self.upper, strict=False))
        return corners and some and all(1 <= each <= _MOST_STEP for each in self.steps)


def window(
    extents: tuple[int, int, int],
    pitches: tuple[int, int, int],
    results: tuple[int, int],
    before: tuple[int, int],
    steps: tuple[int, int],
) -> Window:
    """The window of images of those extents, with so many rows and columns of results, and so many zeros above and to the left."""
    lower = -before[0], -before[1]
    # The last patch of a row starts here, whatever zeros there are to the right.
    rows, columns = (
        start + (count - 1) * step - (extent - 1)
        for start, count, step, extent in zip(lower, results, steps, extents, strict=False)
    )
    return Window(extents, pitches, lower, (rows, columns), steps)
