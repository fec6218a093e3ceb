# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The NumPy reference of a convolution: the reference of the product of its im2col matrix and its filters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import reference as products


def known(spec: Conv2dSpec, *operands: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The result, and how far from it a right kernel's may be: both of the result's shape.

    Args:
        spec: What is computed.
        *operands: Images, filters and the operands of the epilogue, of the spec's shapes and types.
    """
    x, w, *further = operands
    images = x if spec.layout == "nhwc" else x.transpose(0, 2, 3, 1)
    bank = w.transpose([str(spec.filter).index(axis) for axis in "hwio"])
    patches = _patches(spec, images)
    product, wide = spec.product, spec.oc // spec.groups
    values, bounds = [], []
    for group in range(spec.groups):
        own = slice(group * wide, (group + 1) * wide)
        rows = np.ascontiguousarray(patches[..., group, :]).reshape(product.m, product.k)
        filters = np.ascontiguousarray(bank[..., own]).reshape(product.k, product.n)
        given = [_of_group(spec, array, each.axes, own) for array, each in zip(further, product.further, strict=True)]
        values.append(products.reference(product, rows, filters, *given))
        bounds.append(products.error_bound(product, rows, filters, *given))
    return _as_stored(spec, values), _as_stored(spec, bounds)


def _patches(spec: Conv2dSpec, images: NDArray[Any]) -> NDArray[Any]:
    """What each pixel of the result sees: images, rows, columns, filter rows, filter columns, groups, channels of a group."""
    padded = np.pad(images, ((0, 0), *spec.padding, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, spec.reach, axis=(1, 2))  # type: ignore[call-overload]
    (down, right), (deep, wide) = spec.stride, spec.dilation
    seen = windows[:, ::down, ::right, :, ::deep, ::wide].transpose(0, 1, 2, 4, 5, 3)
    return seen.reshape(*seen.shape[:-1], spec.groups, -1)


def _of_group(spec: Conv2dSpec, array: NDArray[Any], axes: str, own: slice) -> NDArray[Any]:
    """The part of a further operand that a group meets, as the product takes it."""
    if axes == "":
        return array
    if axes == "n":
        return array[own]
    pixels = array if spec.layout == "nhwc" else array.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pixels[..., own]).reshape(spec.pixels, -1)


def _as_stored(spec: Conv2dSpec, parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The matrices of all groups, pixels by channels, as the result is stored."""
    whole = np.concatenate(parts, axis=1).reshape(spec.n, spec.oh, spec.ow, spec.oc)
    return whole if spec.layout == "nhwc" else np.ascontiguousarray(whole.transpose(0, 3, 1, 2))
