# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of complex matrices by kernels of real ones: the 1m method.

Source: F. G. Van Zee, "Implementing High-Performance Complex Matrix Multiplication via the 1m Method", SIAM Journal on Scientific
Computing 42(5), 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import OperandError

Multiply = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


def product(a: NDArray[Any], b: NDArray[Any], multiply: Multiply) -> NDArray[Any]:
    """A·B of complex matrices, or of batches of them, by one product of real ones.

    A and C are taken where they lie for matrices of M×2K and M×2N real and imaginary parts. B becomes one of 2K×2N, with the block
    [[re, im], [-im, re]] for each element. An A whose rows have no adjacent elements is copied first.

    Args:
        a: A, of complex64 or complex128.
        b: B, of the same type.
        multiply: The product of real matrices.

    Raises:
        OperandError: The types differ.
    """
    if a.dtype != b.dtype:
        remedy = f"Convert with b.astype('{a.dtype}')"
        raise OperandError(f"is of {b.dtype}", operand="b", expected=f"{a.dtype}, as a", remedy=remedy)
    real = np.real(a).dtype
    rows = a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a)
    return multiply(rows.view(real), _blocks(b)).view(a.dtype)


def _blocks(b: NDArray[Any]) -> NDArray[Any]:
    """The real matrix that stands for B."""
    *batch, k, n = b.shape
    re, im = np.real(b), np.imag(b)
    blocks = np.empty((*batch, k, 2, n), b.dtype)
    blocks[..., 0, :] = b
    parts = blocks.view(re.dtype).reshape(*batch, k, 2, n, 2)
    np.negative(im, out=parts[..., 1, :, 0])
    parts[..., 1, :, 1] = re
    return parts.reshape(*batch, 2 * k, 2 * n)
