# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random operands of every element type, to check kernels with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dims import Dim
from tilewright.dtypes import DType, dtype, stored_numpy, to_numpy
from tilewright.operator_specs import AttentionSpec, OperatorSpec
from tilewright.payload import attention_entries

_ALIGNMENT = 64  # bytes: one cache line, one AVX-512 register


def aligned(shape: tuple[int, ...], numpy_dtype: np.dtype[Any]) -> np.ndarray:
    """An array of undefined contents that begins on a cache line, as every contender gets it."""
    size = math.prod(shape) * numpy_dtype.itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(numpy_dtype).reshape(shape)


def values(random: np.random.Generator, shape: tuple[int, ...], kind: DType) -> np.ndarray:
    """A matrix as it is stored, of floats uniform in [-1, 1], or of integers over their whole range; scales are powers of two.

    Both parts of complex numbers are such floats.

    Elements of four bits have any code, and so has what shares a byte with the last one of a row.
    """
    if kind.packed > 1:
        codes = aligned((*shape[:-1], -(-shape[-1] // kind.packed)), stored_numpy(kind))
        codes[...] = random.integers(0, 255, codes.shape, np.uint8, endpoint=True)
        return codes
    numpy_dtype = to_numpy(kind)
    if kind.part is not None:
        return values(random, (*shape, 2), dtype(kind.part)).view(numpy_dtype)[..., 0]
    matrix = aligned(shape, numpy_dtype)
    if kind.kind != "float":
        limits = np.iinfo(numpy_dtype)
        matrix[...] = random.integers(limits.min, limits.max, shape, dtype=numpy_dtype, endpoint=True)
        return matrix
    # numpy draws float32 and float64 only; a narrower type gets float32's values, rounded.
    drawn = matrix if kind.bits >= 32 else np.empty(shape, np.float32)
    random.random(dtype=drawn.dtype.type, out=drawn)
    drawn *= 2
    drawn -= 1
    if kind.name == "f8E8M0FNU":  # which has no sign, and no 0
        drawn = np.exp2(np.round(2 * drawn))
    if drawn is not matrix:
        matrix[...] = drawn
    return matrix


def of_operator(random: np.random.Generator, spec: OperatorSpec) -> list[np.ndarray]:
    """Operands of an operator, as `values` draws them; tables of attention name what there is."""
    tables: dict[str, Any] = {}
    if isinstance(spec, AttentionSpec) and spec.is_ragged:
        tables = attention_entries.even(spec)
    pages = tables["table"].size if "table" in tables else 0
    shapes = ((each, tuple(pages if isinstance(size, Dim) else size for size in each.shape)) for each in spec.operands)
    return [tables[each.name] if each.name in tables else values(random, shape, each.type) for each, shape in shapes]


def unwritten(kind: DType) -> complex:
    """The contents of C before a call, so that an unwritten element is found."""
    if kind.part is not None:
        return complex(math.nan, math.nan)
    return math.nan if kind.kind == "float" else int(np.iinfo(to_numpy(kind)).min)
