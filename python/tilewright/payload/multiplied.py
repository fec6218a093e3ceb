# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of products with prologues: operands with error bounds, and sums of their products.

With A off by E and B by F at most, elementwise, sums are off by |A|F + E|B| + EF more than they would be by their own
rounding, which grows with them: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002, section 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType, dtype, to_numpy
from tilewright.entries import Chain, Operand
from tilewright.errors import OperandError
from tilewright.payload import propagation
from tilewright.payload.propagation import Known
from tilewright.payload.rounding import gamma, roundoff
from tilewright.precision import LEAST_ROUNDED, ROUNDED_TO, rounded_group
from tilewright.spec import MatmulSpec

CODE_BITS = 4
"""Bits of elements that kernels look up in a table of all that a prologue can make of them."""
_MOST_BITS = 9
"""Of a code of eight bits less a zero point."""
_HALF = 0.5 + 2.0**-12
"""Of a scale: a quotient of 127 at most is off by some 2**-15, and the scale by 2**-23 of itself, before and after it is rounded."""


def of(chain: Chain, matrix: NDArray[Any], operands: Sequence[NDArray[Any]], axes: str) -> Known:
    """Applies a prologue to a matrix with a dimension for each of `axes`, the last two, in the product's type.

    Raises:
        OperandError: An index is out of range.
    """
    given = list(operands)
    if chain.entries and chain.entries[0].entry.form == "gather":
        numbers = given[0]
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < len(matrix)):
            raise OperandError(
                "an index is out of range", operand="index", expected=f"indices from 0 to {len(matrix) - 1}"
            )
        matrix = matrix[numbers]
    known = [
        propagation.exact(_broadcast(array, operand, axes, matrix.shape), str(operand.type))
        for array, operand in zip(given, chain.operands, strict=True)
    ]
    result = propagation.apply(chain, propagation.exact(matrix, chain.accumulator), known)
    if is_of_codes(dtype(chain.accumulator)):
        # An infinite scale, or product with it, may meet the sum of several elements, of which some have another sign.
        told = np.any([np.isnan(each.value) for each in known], axis=0) if known else False
        result = Known(result.value, np.where(np.isfinite(result.value) | told, result.error, np.inf))
    return propagation.converted(result, chain.result, chain.result)


def is_of_codes(element: DType) -> bool:
    """Whether kernels may scale sums of such elements of B, and not each."""
    return element.bits == CODE_BITS or (element.bits == 8 and element.kind in ("int", "uint"))


def rounded(known: Known, element: DType) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Numbers as a kernel multiplies them, of type `element`, and how far a kernel's may be from these."""
    with np.errstate(all="ignore"):
        values = known.value.astype(to_numpy(element))
        off = np.abs(values.astype(np.float64) - known.value)
    return values, known.error + np.where(np.isfinite(off), off, 0.0)


def rounded_in_groups(spec: MatmulSpec, a: NDArray[Any]) -> NDArray[np.float64]:
    """How far elements of A, of M x K, may be from what `precision` says that they are rounded to.

    Half a scale, and a little more for roundings in f32 before; all of what is so small that it becomes zero; inf beside an Inf or a NaN.
    """
    group = rounded_group(next((each.group for each in spec.chain_b.operands), 0))
    sizes = np.abs(a.astype(np.float64))
    starts = range(0, spec.k, group)
    most = np.maximum.reduceat(sizes, starts, -1) if spec.k else sizes
    off = np.where(most < LEAST_ROUNDED, most, most / ROUNDED_TO * _HALF)
    off = np.where(np.isfinite(most), off, np.inf)
    return np.repeat(off, group, -1)[..., : spec.k]


def inexact(
    spec: MatmulSpec, a: NDArray[Any], a_error: NDArray[np.float64], b: NDArray[Any], b_error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far sums of products may be off because A and B are: inf where one of their elements could be anything."""
    a_size, b_size = (np.where(np.isfinite(x), np.abs(x), 0.0) for x in (a.astype(np.float64), b.astype(np.float64)))
    a_off, b_off = (np.where(np.isinf(x), 0.0, x) for x in (a_error, b_error))
    off = a_size @ b_off + a_off @ (b_size + b_off)
    wild = np.isinf(a_error).any(-1, keepdims=True) | np.isinf(b_error).any(-2, keepdims=True)
    if spec.acc_type.kind == "float":
        off = off * (1 + 2 * gamma(spec.k, roundoff(spec.acc_type)))
    return np.where(wild, np.inf, off)


def scaled_in_blocks(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], b_error: NDArray[np.float64], bound: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The bound of sums of which a kernel may scale those of a block, and not their elements.

    What it adds up before may be larger, or smaller, than what it gives; and an Inf may meet an element that is no zero before.
    """
    limits = np.finfo(np.float32)
    with np.errstate(all="ignore"):
        a_size, b_size = (
            np.where(np.isfinite(x), np.abs(x), 0.0) for x in (a.astype(np.float64), b.astype(np.float64))
        )
        largest = a_size.sum(-1, keepdims=True) * 2.0**_MOST_BITS
        lost = 2 * spec.k * float(limits.tiny) * b_size.max(-2, keepdims=True, initial=0.0)
        gone = (b == 0) & (b_error > 0)
        met = np.isinf(a).astype(np.float64) @ gone.astype(np.float64) > 0
    return np.where((largest > float(limits.max)) | met, np.inf, bound + lost)


def _broadcast(array: NDArray[Any], operand: Operand, axes: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """An operand with an extent of one for each dimension that it has no extent for; of groups, with one for each element."""
    own = operand.axes
    if operand.group:
        along = axes.index("k") - 2
        return np.repeat(array, operand.group, along).take(range(shape[along]), along)
    if own == axes:
        return array
    return array.reshape(array.size if own == axes[0] else 1, array.size if own == axes[1] else 1)
