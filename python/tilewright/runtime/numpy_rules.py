# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What numpy's rules make of the operands of a product: types that are promoted, layouts that are copied, shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError, SpecError
from tilewright.spec import MatmulSpec

Array = np.ndarray[Any, Any]
Type = np.dtype[Any]
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Types:
    """The types of a product.

    Attributes:
        a: To which A is converted; None: it is taken as it is.
        b: Likewise.
        result: To which the result is converted; None: it is as the kernel makes it.
    """

    a: Type | None = None
    b: Type | None = None
    result: Type | None = None


AS_THEY_ARE = Types()
"""What a kernel multiplies."""


@lru_cache(maxsize=256)
def types(a: Type, b: Type) -> Types:
    """The types of a product of arrays of `a` and `b`.

    Where a kernel multiplies the types as they are, they stay so. Otherwise both are converted to what ``numpy.matmul`` computes them in,
    which for types of `ml_dtypes` is wider than what ``numpy.result_type`` says.

    Raises:
        OperandError: No kernel multiplies them, nor what they are promoted to.
    """
    if computed(a, b):
        return AS_THEY_ARE
    if a == b == np.bool_:
        return Types(np.dtype(np.uint8), np.dtype(np.uint8), np.dtype(np.bool_))
    common = _numpys(a, b)
    if common is not None and common.kind in "iu" and not computed(common, common):
        whole = np.dtype(np.int64 if common.itemsize > np.dtype(np.int32).itemsize else np.int32)
        return Types(whole, whole, None if whole == common else common)
    if common is None or not computed(common, common):
        raise OperandError(
            f"is of {b}, and a of {a}",
            operand="b",
            expected="types that numpy promotes to one that a kernel multiplies, such as float32",
            remedy="Convert with x.astype(...)",
        )
    return Types(common, common)


@lru_cache(maxsize=256)
def casts(a: Type, b: Type, result: Type, into: Type) -> bool:
    """Whether numpy writes a product of `a` and `b` into `into`, or its sums of type `result`: types of the same kind."""
    numpys = _numpys(a, b)
    return any(each is not None and np.can_cast(each, into, "same_kind") for each in (result, numpys))


def _numpys(a: Type, b: Type) -> Type | None:
    """The type that numpy gives a product; None where it multiplies none of these."""
    try:
        return np.matmul(np.empty((0, 0), a), np.empty((0, 0), b)).dtype
    except TypeError:  # It has no loop for them.
        return None


@lru_cache(maxsize=256)
def computed(a: Type, b: Type, result: Type | None = None) -> bool:
    """Whether kernels multiply these types, of which each element is whole bytes, and make that result."""
    try:
        c = None if result is None else from_numpy(result).name
        spec = MatmulSpec(1, 1, 1, from_numpy(a).name, from_numpy(b).name, c)
    except SpecError:
        return False
    return spec.a_stored.packed == spec.b_stored.packed == 1


def converted(x: Array, type_: Type | None) -> Array:
    """An array of that type: itself where it is, its memory where only the sign of integers differs, and otherwise a copy."""
    if type_ is None or x.dtype == type_:
        return x
    if x.dtype.isnative and x.dtype.itemsize == type_.itemsize and x.dtype.kind in "iub" and type_.kind in "iu":
        return x.view(type_)
    return x.astype(type_)


def stored(x: Array) -> tuple[Array, str]:
    """An array of matrices as a kernel takes it, and its letter in a layout: "n", or "t" for one that is stored transposed.

    It is copied where it lies in neither way: no axis of a matrix has adjacent elements, one runs backwards, or rows overlap.
    """
    flags = x.flags
    if flags.aligned:  # What nearly all operands look like.
        if flags.c_contiguous:
            return x, "n"
        if flags.f_contiguous and x.ndim == _MATRIX:
            return x.T, "t"
    swapped = x.swapaxes(-1, -2)
    if lies(x):
        return x, "n"
    if lies(swapped):
        return swapped, "t"
    return x.copy(), "n"


def lies(x: Array) -> bool:
    """Whether rows have adjacent elements and lie one after another, and matrices are no step back."""
    item = x.itemsize
    if not x.size:
        return True
    *batch, (rows, row), (columns, column) = zip(x.shape, x.strides, strict=True)
    return (
        x.flags.aligned
        and (columns == 1 or column == item)
        and (rows == 1 or (row >= columns * item and row % item == 0))
        and all(extent == 1 or (step >= 0 and step % item == 0) for extent, step in batch)
    )


def apart(x: Array) -> bool:
    """Whether each axis steps over all that those with smaller steps reach, so that no two elements overlap."""
    if not x.size:
        return True
    reached = x.itemsize
    for step, extent in sorted((abs(step), extent) for step, extent in zip(x.strides, x.shape, strict=True)):
        if extent > 1 and step < reached:
            return False
        reached = max(reached, step * extent)
    return True


def batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The leading extents of the product of arrays of matrices of these shapes.

    Raises:
        OperandError: They are not broadcast.
    """
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        expected = f"extents that are broadcast to {a[:-2]}, those of a"
        raise OperandError(f"is a batch of {b[:-2]} matrices", operand="b", expected=expected) from None
