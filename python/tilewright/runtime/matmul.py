# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product of arrays, with its spec inferred: what `tilewright.matmul` is, and `tilewright.matmul_each` for lists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy, to_numpy
from tilewright.errors import OperandError
from tilewright.runtime import arrays
from tilewright.runtime.arrays import ANY_ARRAY, Array
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.numpy_rules import AS_THEY_ARE, apart, batch, casts, computed, converted, lies, stored, types
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec
from tilewright.standalone import _native


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
        out: Where the result goes, an array of its shape with any strides, of its type or one to which numpy casts it (of the same
            kind: a product of float16 may go into float16). None: into a new array, of the library of the first operand that is not
            numpy's, or, of two vectors of numpy's, a number of numpy's.

    Raises:
        OperandError: An operand has no dimensions, or is no array, or the shapes or types do not fit.
        SpecError: `threads` is no int from 1 to 1024.
    """
    left = a if type(a) is np.ndarray else arrays.view_or_array("a", a)
    right = b if type(b) is np.ndarray else arrays.view_or_array("b", b)
    kind = None if left is a and right is b else arrays.kind((a, b))
    dropped: tuple[int, ...] = ()
    if left.ndim <= 1 or right.ndim <= 1:
        left, right, dropped = _matrices(left, right)
    given = left.dtype, right.dtype
    chosen = types(*given)
    if chosen is not AS_THEY_ARE:
        left, right = converted(left, chosen.a), converted(right, chosen.b)
    (left, of_a), (right, of_b) = stored(left), stored(right)
    rows = _as_rows(left) if left.ndim > 2 and right.ndim == 2 and of_a == "n" and out is None else left
    layout, threads = of_a + of_b, check(threads, "matmul")
    if out is not None:
        into = arrays.view("out", out, "an array", written=True)
        makes_it = chosen.result is None and computed(left.dtype, right.dtype, into.dtype)
        own = into.dtype if makes_it else None
        kernel = _kept(rows.shape, right.shape, left.dtype, right.dtype, layout, threads, own)
        _compute(kernel, rows, right, _room(into, kernel.spec.c_shape, dropped), given, chosen.result)
        return out
    kernel = _kept(rows.shape, right.shape, left.dtype, right.dtype, layout, threads)
    lines = arrays.empty(kernel.spec.c_shape, to_numpy(kernel.spec.c_type)) if arrays.wants_lines(kind) else None
    product = kernel(rows, right, out=lines)
    if rows is not left:
        product = product.reshape(*left.shape[:-1], product.shape[-1])
    if chosen.result is not None:
        product = _rounded(product, chosen.result)
    if dropped:
        product = product.squeeze(dropped)
    if kind is None:
        return product if product.ndim else product[()]
    return arrays.like(product, kind)


def matmul_each(
    a: Sequence[ANY_ARRAY], b: Sequence[ANY_ARRAY], *, out: Sequence[ANY_ARRAY] | None = None
) -> list[ANY_ARRAY]:
    """The products of ``a[i]`` and ``b[i]``, of any shapes and types, each as `matmul` computes it, in one call without a loop in Python.

    Matrices of numpy that lie row by row, of types that a kernel multiplies, go to the kernels of their shapes at once; others one by one
    to `matmul`. Where all matrices of a list are of one shape in one array, a batch is faster yet.

    Args:
        a: So many operands.
        b: As many.
        out: Where the results go, as many arrays, which overlap no operand; None: into new arrays.

    Returns:
        The results, in order.

    Raises:
        OperandError: The lists are not as long as each other, or a product's operands do not fit, as for `matmul`; a note says which one.
    """
    for name, each in (("b", b), ("out", out)):
        if each is not None and len(each) != len(a):
            raise OperandError(f"has {len(each)} elements", operand=name, expected=f"{len(a)}, as a has")
    return _native.each(a, b, out, _kernel_of, matmul)


def _kernel_of(a: Array, b: Array) -> Kernel | None:
    """The kernel of matrices of these shapes and types; None where operands or the result have to be converted."""
    if types(a.dtype, b.dtype) is not AS_THEY_ARE:
        return None
    return _kept(a.shape, b.shape, a.dtype, b.dtype, "nn", 1)


def _matrices(a: Array, b: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Operands of which one is a vector as matrices, of one row or one column, and the axes that the result does not have.

    Raises:
        OperandError: One has no dimensions.
    """
    for name, each in (("a", a), ("b", b)):
        if not each.ndim:
            raise OperandError("has no dimensions", operand=name, expected="a matrix or a vector", remedy="Write a * b")
    dropped = tuple(axis for axis, each in ((-2, a), (-1, b)) if each.ndim == 1)
    return a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b, dropped


def _room(into: Array, shape: tuple[int, ...], dropped: tuple[int, ...]) -> Array:
    """The memory of `out`, with the axes of the product that the result does not have.

    Raises:
        OperandError: It is not of the result's shape.
    """
    kept = tuple(size for axis, size in enumerate(shape, -len(shape)) if axis not in dropped)
    if into.shape != kept:
        raise OperandError(f"is of shape {into.shape}", operand="out", expected=str(kept))
    return into.reshape(shape) if not dropped else np.expand_dims(into, dropped)


def _compute(
    kernel: Kernel,
    a: Array,
    b: Array,
    into: Array,
    given: tuple[np.dtype[Any], np.dtype[Any]],
    type_: np.dtype[Any] | None,
) -> None:
    """Computes the product of arrays, which were given in these types, into one of its shape; `type_` is the result's, if not the kernel's.

    A kernel writes rows of adjacent elements of its type that lie one after another. Into others, the product is copied.

    Raises:
        OperandError: It is read-only, or of a type to which numpy does not cast the product, or its elements overlap.
    """
    result = to_numpy(kernel.spec.c_type) if type_ is None else type_
    if not into.flags.writeable:
        raise OperandError("the array is read-only", operand="out", expected="a writable array", remedy="Pass a copy")
    if type_ is None and into.dtype == result and lies(into):
        kernel(a, b, out=into)
        return
    if not casts(*given, result, into.dtype):
        expected = f"{result}, or a type of the same kind, to which numpy casts it"
        raise OperandError(f"is of {into.dtype}", operand="out", expected=expected)
    if not apart(into):
        raise OperandError(f"strides {into.strides} bytes: elements overlap", operand="out", expected="none that do")
    product = kernel(a, b)
    np.copyto(into, product if type_ is None else _rounded(product, type_), casting="unsafe")


def _rounded(product: Array, type_: np.dtype[Any]) -> Array:
    """The last bits of sums of integers, in the type that numpy gives them; of bool, whether they are not zero."""
    return product != 0 if type_ == np.bool_ else converted(product, type_)


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
    a: tuple[int, ...],
    b: tuple[int, ...],
    a_type: np.dtype,
    b_type: np.dtype,
    layout: str,
    threads: int,
    c_type: np.dtype | None = None,
) -> Kernel:
    """The kernel for operands of these types and layout, of these shapes as they are stored; `c_type` is the result's, if it is told.

    Raises:
        OperandError: The shapes do not fit.
    """
    m, k = a[-2:] if layout[0] == "n" else a[:-3:-1]
    rows, n = b[-2:] if layout[1] == "n" else b[:-3:-1]
    if k != rows:
        raise OperandError(f"has {rows} rows", operand="b", expected=f"{k}, the columns of a")
    named = {"a": from_numpy(a_type).name, "b": from_numpy(b_type).name}
    named |= {} if c_type is None else {"c": from_numpy(c_type).name}
    own: dict[str, Any] = {"batch": batch(a, b), "a_batch": a[:-2], "b_batch": b[:-2]}
    return compile(MatmulSpec(m=m, n=n, k=k, layout=layout, **named, **own), threads=threads)
