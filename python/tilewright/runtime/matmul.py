# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product of arrays, with its spec inferred: what `tilewright.matmul` is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy, to_numpy
from tilewright.errors import OperandError
from tilewright.runtime import arrays
from tilewright.runtime.arrays import ANY_ARRAY, Array
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.numpy_rules import batch, converted, stored, types
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec


def matmul(a: ANY_ARRAY, b: ANY_ARRAY, *, threads: int = 1, out: ANY_ARRAY | None = None) -> ANY_ARRAY:
    """A·B of what ``numpy.matmul`` takes, with the spec inferred, compiled once for each pair of shapes and types, and kept.

    The last two dimensions are a matrix's, and those before them are broadcast. A vector is a row as A and a column as B, and that axis
    is not in the result. An operand whose columns, and not rows, have their elements side by side, such as ``b.T``, is taken for one that
    is stored transposed.

    Operands are arrays of any library, or whatever numpy makes an array of, such as lists. Types that no kernel multiplies are promoted as
    numpy promotes them. An operand is copied only where it is converted, or where no kernel takes it as it lies: no axis of its matrices
    has adjacent elements, one runs backwards, or rows overlap. 8-bit integers give int32, and 16-bit floats float32.

    Args:
        a: A.
        b: B.
        threads: As for `tilewright.compile`.
        out: Where the result goes, an array of its shape and type; None: into a new array, of the library of the first operand that
            is not numpy's.

    Raises:
        OperandError: An operand has no dimensions, or is no array, or the shapes or types do not fit.
        SpecError: `threads` is no int from 1 to 1024.
    """
    given = arrays.view_or_array("a", a), arrays.view_or_array("b", b)
    for name, each in zip("ab", given, strict=True):
        if not each.ndim:
            raise OperandError("has no dimensions", operand=name, expected="a matrix or a vector", remedy="Write a * b")
    kind = None if given[0] is a and given[1] is b else arrays.kind((a, b))
    # A vector is a matrix of one row, or of one column.
    dropped = tuple(axis for axis, each in zip((-2, -1), given, strict=True) if each.ndim == 1)
    matrices = given[0][None] if -2 in dropped else given[0], given[1][:, None] if -1 in dropped else given[1]
    chosen = types(matrices[0].dtype, matrices[1].dtype)
    left, right = converted(matrices[0], chosen.a), converted(matrices[1], chosen.b)
    shape = (*batch(left.shape, right.shape), left.shape[-2], right.shape[-1])
    into = None if out is None else _room(out, shape, dropped)
    product = _product(left, right, shape, check(threads, "matmul"), into if chosen.result is None else None, kind)
    if chosen.result is not None:
        product = _rounded(product, chosen.result, into)
    if out is not None:
        return out
    return arrays.like(product.squeeze(dropped) if dropped else product, kind)


def _room(out: ANY_ARRAY, shape: tuple[int, ...], dropped: tuple[int, ...]) -> Array:
    """The memory of `out`, with the axes of the product that the result does not have."""
    into = arrays.view("out", out, "an array", written=True)
    kept = tuple(size for axis, size in enumerate(shape, -len(shape)) if axis not in dropped)
    if into.shape != kept:
        raise OperandError(f"is of shape {into.shape}", operand="out", expected=str(kept))
    return into.reshape(shape) if not dropped else np.expand_dims(into, dropped)


def _rounded(product: Array, type_: np.dtype[Any], into: Array | None) -> Array:
    """The result of integers in the type that numpy gives it, which holds the last bits of sums; of bool, whether they are not zero."""
    if into is not None and into.dtype != type_:
        raise OperandError(f"is of {into.dtype}", operand="out", expected=str(type_))
    last = product != 0 if type_ == np.bool_ else converted(product, type_)
    if into is None:
        return last
    if not into.flags.writeable:
        raise OperandError("the array is read-only", operand="out", expected="a writable array")
    np.copyto(into, last)
    return into


def _product(a: Array, b: Array, shape: tuple[int, ...], threads: int, into: Array | None, kind: ANY_ARRAY) -> Array:
    """The product of arrays of matrices, of this shape; `kind` is that of the result."""
    (a, of_a), (b, of_b) = stored(a), stored(b)
    rows = _as_rows(a) if b.ndim == 2 and of_a == "n" and a.ndim > 2 and into is None else a
    extents = [
        x.shape if letter == "n" else (*x.shape[:-2], x.shape[-1], x.shape[-2])
        for x, letter in ((rows, of_a), (b, of_b))
    ]
    kernel = _kept(extents[0], extents[1], a.dtype, b.dtype, of_a + of_b, threads)
    if into is None and kind is not None:
        into = arrays.empty(kernel.spec.c_shape, to_numpy(kernel.spec.c_type), kind)
    product = kernel(rows, b, out=into)
    return product if rows is a else product.reshape(shape)


def _as_rows(a: Array) -> Array:
    """A batch of matrices that meet one B as the one matrix of all their rows, where they lie so; otherwise `a` itself.

    Single rows are a matrix wherever they lie.
    """
    if not a.shape[-1]:
        return a
    if a.flags.c_contiguous:
        return a.reshape(-1, a.shape[-1])
    return a.squeeze(-2) if a.shape[-2] == 1 and a.strides[-3] >= a.shape[-1] * a.itemsize else a


@lru_cache(maxsize=1024)
def _kept(
    a: tuple[int, ...], b: tuple[int, ...], a_type: np.dtype, b_type: np.dtype, layout: str, threads: int
) -> Kernel:
    """The kernel for operands of these shapes, types and layout."""
    named = {"a": from_numpy(a_type).name, "b": from_numpy(b_type).name}
    own: dict[str, Any] = {"batch": batch(a, b), "a_batch": a[:-2], "b_batch": b[:-2]}
    spec = MatmulSpec(m=a[-2], n=b[-1], k=a[-1], layout=layout, **named, **own)
    return compile(spec, threads=threads)
