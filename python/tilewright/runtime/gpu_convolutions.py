# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The launches of a convolution on a GPU: one product for each group, whose operands are parts of the call's arrays, where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tilewright.errors import SpecError
from tilewright.operator_specs import Conv2dSpec, OperatorSpec
from tilewright.payload.conv2d_products import of_launch, reads_patches
from tilewright.runtime.device_arrays import DeviceArray
from tilewright.runtime.gpu_call import MOST_BLOCKS, Array
from tilewright.spec import MatmulSpec


def check(spec: OperatorSpec, rows: int) -> None:
    """Raises `SpecError` where one image of a convolution is more than the blocks of a launch have, of so many rows of the product."""
    if isinstance(spec, Conv2dSpec) and spec.layout == "nhwc" and spec.oh * spec.ow > MOST_BLOCKS * rows:
        raise SpecError(
            f"a result of {spec.oh}x{spec.ow} pixels on a GPU",
            where=str(spec),
            expected=f"at most {MOST_BLOCKS * rows}",
            remedy="Cut the image into parts that overlap",
        )


def products(spec: Conv2dSpec, arrays: Sequence[Array]) -> Iterator[tuple[MatmulSpec, list[Array]]]:
    """The products of a call, one for each launch: what each computes, and its operands, the result last.

    Args:
        spec: The convolution.
        arrays: The operands of the call, which have no gaps, and the result.
    """
    x, w, *further, out = arrays
    inner = of_launch(spec)
    axes = [each.axes for each in inner.further]
    for group in range(spec.groups):
        wide, channels = spec.oc // spec.groups, spec.ic // spec.groups
        own = group * wide, wide
        filters = _part(_shaped(w, (spec.depth, spec.oc)), 1, *own)
        if spec.filter != "hwio":
            filters = _part(_shaped(w, (spec.oc, spec.depth)), 0, *own)
        if spec.layout == "nchw":
            shape = (spec.n, spec.oc, spec.oh * spec.ow)
            given = [
                _part(_shaped(each, shape), 1, *own) if of == "mn" else _vector(each, of, own)
                for each, of in zip(further, axes, strict=True)
            ]
            yield inner, [filters, _planes(spec, x, group * channels), *given, _part(_shaped(out, shape), 1, *own)]
            continue
        for first in range(0, spec.n, step := _images(spec)):
            count = min(step, spec.n - first)
            rows = first * spec.oh * spec.ow, count * spec.oh * spec.ow
            given = [
                _pixels(spec, each, rows, own) if of == "mn" else _vector(each, of, own)
                for each, of in zip(further, axes, strict=True)
            ]
            image = _row(spec, x, first, count, group * channels)
            yield replace(inner, m=rows[1]), [image, filters, *given, _pixels(spec, out, rows, own)]


def _images(spec: Conv2dSpec) -> int:
    """Images of one launch: a grid has so many blocks along the rows of a product, of a row at least."""
    return max(1, MOST_BLOCKS // (spec.oh * spec.ow))


def _row(spec: Conv2dSpec, x: Array, first: int, count: int, channel: int) -> Array:
    """Some images, from a channel on: as one row of elements, or, of filters that see one pixel, as the matrix that they are."""
    if not reads_patches(spec):
        rows = _part(
            _shaped(x, (spec.n * spec.h * spec.w, spec.ic)), 0, first * spec.h * spec.w, count * spec.h * spec.w
        )
        return _part(rows, 1, channel, spec.ic // spec.groups)
    image = spec.h * spec.w * spec.ic
    return _part(_shaped(x, (1, spec.n * image)), 1, first * image + channel, count * image - channel)


def _planes(spec: Conv2dSpec, x: Array, channel: int) -> Array:
    """Channels of all images, in NCHW: as one row of elements each, or as the matrices that they are."""
    plane, channels = spec.h * spec.w, spec.ic // spec.groups
    if not reads_patches(spec):
        return _part(_shaped(x, (spec.n, spec.ic, plane)), 1, channel, channels)
    return _part(_shaped(x, (spec.n, 1, spec.ic * plane)), 2, channel * plane, channels * plane)


def _pixels(spec: Conv2dSpec, array: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """Some pixels and channels of an array like the result."""
    return _part(_part(_shaped(array, (spec.pixels, spec.oc)), 0, *rows), 1, *columns)


def _vector(array: Array, axes: str, own: tuple[int, int]) -> Array:
    """An operand of the epilogue with an element for each channel, or one for all."""
    return _part(array, 0, *own) if axes else array


def _shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """An array without gaps, of the same elements."""
    if isinstance(array, np.ndarray):
        return array.reshape(shape)
    strides = [array.itemsize]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return replace(array, shape=shape, strides=tuple(strides))


def _part(array: Array, axis: int, start: int, size: int) -> Array:
    """`size` elements of an axis from `start` on."""
    if isinstance(array, DeviceArray):
        shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
        return replace(array, address=array.address + start * array.strides[axis], shape=shape)
    return array[(slice(None),) * axis + (slice(start, start + size),)]
