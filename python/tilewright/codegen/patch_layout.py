# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which element of the images each element of an im2col matrix is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.build.index import Number, add, div_rem, mul, total
from tilewright.mlir import ir
from tilewright.payload.patch_windows import Window, window
from tilewright.schedules import decisions


@dataclass(frozen=True, slots=True)
class Patches:
    """A matrix of patches: which element of the images each of its elements is.

    Attributes:
        shape: Of the images as the product takes them; the strides of all but the last axis may be anything.
        pitches: From one image, row, column and channel to the next, in elements.
        extents: Rows and columns of an image.
        results: Rows and columns of the result.
        filter: Rows and columns of a filter.
        channels: Of the images.
        stride: Down and to the right.
        dilation: Likewise.
        before: Zeros above and to the left.
        rows_are_pixels: Whether the matrix has a row for each pixel of the result, and in it rows and columns of the filter, and
            channels, these side by side; otherwise a column for each pixel, and a row for each channel, row and column of the filter.
    """

    shape: tuple[int, ...]
    pitches: tuple[int, int, int, int]
    extents: tuple[int, int]
    results: tuple[int, int]
    filter: tuple[int, int]
    channels: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    rows_are_pixels: bool

    @classmethod
    def of(cls, attribute: ir.Attribute) -> tuple[int, Patches]:
        """The operand that a ``#tilewright.patches`` says is a matrix of patches, and what it is the matrix of."""
        given = decisions.said(attribute)
        return given["operand"], cls.named(given)

    @classmethod
    def named(cls, given: Mapping[str, Any]) -> Patches:
        """What the numbers of such an attribute say, by name."""
        pairs = {
            name: tuple(given[name])
            for name in ("pitches", "extents", "results", "filter", "stride", "dilation", "before")
        }
        rows = given["pixels"] == "rows"
        return cls(tuple(given["images"]), channels=given["channels"], rows_are_pixels=rows, **pairs)

    @property
    def window(self) -> Window | None:
        """What a tensor map says of the images for boxes of patches; None where rows of the matrix are no pixels."""
        if not self.rows_are_pixels:
            return None
        return window((*self.extents, self.channels), self.pitches[:3], self.results, self.before, self.stride)

    def in_boxes(self, bits: int, row_bytes: int) -> bool:
        """Whether patches of elements of so many bits are copied in boxes (`Window.fits`)."""
        down, right = ((count - 1) * step for count, step in zip(self.filter, self.dilation, strict=True))
        return self.window is not None and self.window.fits(bits, row_bytes, (down, right))

    @property
    def are_rows_as_they_lie(self) -> bool:
        """Whether each patch is one pixel, and the matrix is the images without gaps."""
        one = (1, 1)
        rows, columns = self.extents
        compact = (rows * columns * self.channels, columns * self.channels, self.channels, 1)
        same = self.rows_are_pixels and self.results == self.extents and self.pitches == compact
        return same and (self.filter, self.stride, self.before) == (one, one, (0, 0))

    @property
    def depth(self) -> int:
        """Elements of a patch."""
        return prod(self.filter) * self.channels

    @property
    def elements(self) -> int:
        """From the first to the last element of the images."""
        images = self.shape[0] if self.rows_are_pixels else 1
        sizes = (images, *self.extents, self.channels)
        return 1 + sum((size - 1) * pitch for size, pitch in zip(sizes, self.pitches, strict=True))

    def taps(self, k: Number) -> tuple[Number, Number, Number]:
        """Row and column of the filter, and channel, of the elements `k` of a patch."""
        if self.rows_are_pixels:
            pair, channel = div_rem(k, self.channels)
        else:
            channel, pair = div_rem(k, prod(self.filter))
        down, right = div_rem(pair, self.filter[1])
        return down, right, channel

    @property
    def run(self) -> int:
        """Elements of a patch that follow one another in an image too."""
        if not self.rows_are_pixels:
            return 1
        whole = self.dilation[1] == 1 and self.pitches[2] == self.channels
        return self.channels * self.filter[1] if whole else self.channels

    def offset(self, image: Number, y: Number, x: Number, channel: Number) -> Number:
        """Where an element of an image lies."""
        steps = zip((image, y, x, channel), self.pitches, strict=True)
        return total([mul(each, pitch) for each, pitch in steps])

    def places(self, pixel: Number) -> tuple[Number, Number, Number]:
        """The image, and the row and column in it of the first element, of the patches of `pixel`."""
        image, inside = div_rem(pixel, prod(self.results))
        row, column = div_rem(inside, self.results[1])
        top, left = (
            add(mul(at, step), -zeros) for at, step, zeros in zip((row, column), self.stride, self.before, strict=True)
        )
        return image, top, left


@dataclass(frozen=True, slots=True)
class Read:
    """A read of the matrix: the op, and the row and the column of its first element, which are sums of what is listed."""

    op: ir.Operation
    rows: tuple[Number, ...]
    columns: tuple[Number, ...]
