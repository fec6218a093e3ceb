# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A convolution of arrays, with its spec inferred: what `tilewright.conv2d` is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError, SpecError
from tilewright.operator_specs.conv2d import FILTERS, Conv2dSpec
from tilewright.runtime.arrays import ANY_ARRAY, Array, kind, like, view
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models.threads import check

_AXES = 4
_EXPECTED = "an array of four dimensions"
_FIRST = "nchw"


def conv2d(
    x: ANY_ARRAY,
    w: ANY_ARRAY,
    *further: ANY_ARRAY,
    layout: str = "nhwc",
    filter: str | None = None,
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    padding: Any = 0,  # noqa: ANN401 - a number, a name, or pairs
    groups: int = 1,
    epilogue: tuple[Any, ...] = (),
    threads: int = 1,
    out: ANY_ARRAY | None = None,
) -> ANY_ARRAY:
    """The images `x` convolved with the filters `w`, compiled once for each pair of shapes and types, and kept.

    Operands are arrays of any library, used where they lie. With layout "nchw", images may have their channels side by side in memory, as
    torch's memory format channels_last has them: the result, `out` and operands of the epilogue with four dimensions lie so then, too.
    Filters that lie otherwise than the images are copied.

    Args:
        x: Images, as `layout` says: (n, h, w, channels) or (n, channels, h, w).
        w: Filters, as `filter` says.
        *further: The operands of the epilogue, in its order.
        layout: As in `Conv2dSpec`, like the fields after it.
        filter: How filters are stored.
        stride: Between neighboring results.
        dilation: Between neighboring elements of a filter.
        padding: Zeros around an image.
        groups: Into which channels fall.
        epilogue: What is done to each sum.
        threads: As for `tilewright.compile`.
        out: Where the result goes; None: into a new array, of the library of the first operand that is not numpy's.

    Raises:
        OperandError: An operand is no array, or its shape or type does not fit.
        SpecError: An element type or an option is not supported, or `threads` is no int from 1 to 1024.
    """
    images, filters = (view(name, array, _EXPECTED) for name, array in (("x", x), ("w", w)))
    for name, each in (("x", images), ("w", filters)):
        if each.ndim != _AXES:
            raise OperandError(f"is of {each.ndim} dimensions", operand=name, expected=_EXPECTED)
    rest = (_hashable(stride), _hashable(dilation), _hashable(padding), groups, tuple(epilogue))
    threads = check(threads, "conv2d")
    if layout == _FIRST and filter in (None, *FILTERS[_FIRST]):
        if _are_last(images):
            images, filters = _last(images), np.ascontiguousarray(_last(filters))
            kernel = _kept(images.shape, filters.shape, images.dtype, filters.dtype, ("nhwc", "ohwi", *rest), threads)
            others = [_last(view(f"number {n} of the epilogue", each)) for n, each in enumerate(further)]
            into = None if out is None else _last(view("out", out, written=True))
            made = kernel(images, filters, *others, out=into).transpose(0, 3, 1, 2)
            return like(made, kind((x, w, *further))) if out is None else out
        if _are_last(filters):
            w = np.ascontiguousarray(filters)
    kernel = _kept(images.shape, filters.shape, images.dtype, filters.dtype, (layout, filter, *rest), threads)
    return kernel(x, w, *further, out=out)


def _are_last(array: Array) -> bool:
    """Whether an array with channels as its second axis has them side by side in memory, and not the elements of a row."""
    size = array.itemsize
    return array.shape[1] > 1 and array.strides[1] == size and not (array.shape[3] > 1 and array.strides[3] == size)


def _last(array: Array) -> Array:
    """An array of four dimensions with its second axis as the last one."""
    return array.transpose(0, 2, 3, 1) if array.ndim == _AXES else array


def _hashable(value: Any) -> Any:  # noqa: ANN401 - as given
    """Lists as tuples."""
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


@lru_cache(maxsize=1024)
def _kept(
    x: tuple[int, ...],
    w: tuple[int, ...],
    x_type: np.dtype,
    w_type: np.dtype,
    options: tuple[Any, ...],
    threads: int,
) -> Kernel:
    """The kernel for operands of these shapes and types."""
    return compile(spec_of(x, w, from_numpy(x_type).name, from_numpy(w_type).name, *options), threads=threads)


def spec_of(
    x: tuple[int, ...],
    w: tuple[int, ...],
    x_type: str,
    w_type: str,
    layout: str,
    stored: str | None,
    stride: Any,  # noqa: ANN401 - these as given
    dilation: Any,  # noqa: ANN401
    padding: Any,  # noqa: ANN401
    groups: int,
    epilogue: tuple[Any, ...] = (),
) -> Conv2dSpec:
    """What `conv2d` computes of operands of these shapes and element types.

    Raises:
        OperandError: The filters have other channels than the images.
        SpecError: An element type or an option is not supported.
    """
    if layout not in FILTERS:
        raise SpecError(f"layout is {layout!r}", where="conv2d", expected=f"one of {', '.join(FILTERS)}")
    stored = FILTERS[layout][0] if stored is None else stored
    if stored not in FILTERS[layout]:
        raise SpecError(f"filter is {stored!r}", where="conv2d", expected=f"one of {', '.join(FILTERS[layout])}")
    image, bank = dict(zip(layout, x, strict=True)), dict(zip(stored, w, strict=True))
    if isinstance(groups, int) and bank["i"] * groups != image["c"]:
        raise OperandError(
            f"has filters of {bank['i']} channels", operand="w", expected=f"{image['c']} channels in {groups} groups"
        )
    return Conv2dSpec(
        *(image[axis] for axis in "nhwc"),
        oc=bank["o"],
        kh=bank["h"],
        kw=bank["w"],
        a=x_type,
        b=w_type,
        layout=layout,
        filter=stored,
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
        epilogue=epilogue,
    )
