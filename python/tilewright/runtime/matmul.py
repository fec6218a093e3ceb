# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product of arrays, with its spec inferred: what `tilewright.matmul` is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec


def matmul(a: np.ndarray, b: np.ndarray, *, threads: int = 1) -> np.ndarray:
    """A·B for two matrices or batches of them, with the spec inferred, compiled once for each pair of shapes and types, and kept.

    As with ``numpy.matmul``, the last two dimensions are a matrix's, and those before them are broadcast. An operand whose
    columns, and not rows, have their elements side by side, such as ``b.T``, is taken for one that is stored transposed, and
    not copied. `threads` is as for `compile`.

    Raises:
        OperandError: An operand is no array of two or more dimensions, or the shapes or types do not fit.
        SpecError: The element type is not supported, or `threads` is no int from 1 to 1024.
    """
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, np.ndarray):
            raise OperandError(f"is a {type(operand).__name__}", operand=name, expected="a numpy array of matrices")
    layout = ("t" if _is_transposed(a) else "n") + ("t" if _is_transposed(b) else "n")
    rows = _as_rows(a, b, layout)
    kernel = _kept(rows.shape, b.shape, a.dtype, b.dtype, layout, check(threads, "matmul"))
    product = kernel(rows.swapaxes(-1, -2) if layout[0] == "t" else rows, b.swapaxes(-1, -2) if layout[1] == "t" else b)
    return product if rows is a else product.reshape(*a.shape[:-1], b.shape[-1])


def _as_rows(a: np.ndarray, b: np.ndarray, layout: str) -> np.ndarray:
    """A batch of matrices that meet one B as the one matrix of all their rows, where they lie so; otherwise `a` itself.

    Single rows are a matrix wherever they lie.
    """
    if a.ndim < 3 or b.ndim != 2 or layout[0] == "t" or not a.shape[-1]:
        return a
    if a.flags.c_contiguous:
        return a.reshape(-1, a.shape[-1])
    return a.squeeze(-2) if a.shape[-2] == 1 and a.strides[-3] >= a.shape[-1] * a.itemsize else a


def _is_transposed(operand: np.ndarray) -> bool:
    """Whether the elements of its columns lie side by side, and those of its rows do not."""
    if operand.ndim < 2 or operand.shape[-1] <= 1 or operand.strides[-1] == operand.itemsize:
        return False
    return operand.shape[-2] == 1 or operand.strides[-2] == operand.itemsize


@lru_cache(maxsize=1024)
def _kept(
    a: tuple[int, ...], b: tuple[int, ...], a_type: np.dtype, b_type: np.dtype, layout: str, threads: int
) -> Kernel:
    """The kernel for operands of these shapes, types and layout."""
    types = {"a": from_numpy(a_type).name, "b": from_numpy(b_type).name}
    own: dict[str, Any] = {"batch": _batch(a, b), "a_batch": a[:-2], "b_batch": b[:-2]}
    spec = MatmulSpec(m=a[-2], n=b[-1], k=a[-1], layout=layout, **types, **own)
    return compile(spec, threads=threads)


def _batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The leading extents of the product of operands of these shapes.

    Raises:
        OperandError: One is of no matrices, or they do not fit.
    """
    for name, shape, remedy in (("a", a, "a[None, :]"), ("b", b, "b[:, None]")):
        if len(shape) < 2:
            expected = "a numpy array of two or more dimensions"
            raise OperandError(f"is of shape {shape}", operand=name, expected=expected, remedy=f"Pass {remedy}")
    if a[-1] != b[-2]:
        raise OperandError(f"has {b[-2]} rows", operand="b", expected=f"{a[-1]}, the columns of a")
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        expected = f"extents before the last two that are broadcast to {a[:-2]}, those of a"
        raise OperandError(f"is of shape {b}", operand="b", expected=expected) from None
