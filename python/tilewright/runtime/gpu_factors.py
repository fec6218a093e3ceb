# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The factors alpha and beta of a call on a GPU: numbers become arrays, and an alpha of 0 leaves no products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError
from tilewright.runtime import gpu_passes
from tilewright.runtime.device_arrays import DeviceArray
from tilewright.runtime.gpu_call import Array
from tilewright.scaling import ARG
from tilewright.spec import MatmulSpec


def as_arrays(spec: MatmulSpec, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The operands of a call, with arrays in place of numbers of Python's and numpy's where one number is wanted.

    Raises:
        OperandError: The operand's type does not hold the number.
    """
    return tuple(
        _as_array(value, each.name, np.dtype(to_numpy(each.type)))
        if not each.shape and isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        else value
        for value, each in zip(operands, spec.operands, strict=True)
    )


def _as_array(value: Any, name: str, wanted: np.dtype[Any]) -> np.ndarray[Any, Any]:  # noqa: ANN401 - a number
    if wanted.kind in "iu" and not (isinstance(value, int | np.integer) and int(value) in _range(wanted)):
        raise OperandError(f"the number is {value!r}", operand=name, expected=f"a number that {wanted} holds")
    return np.asarray(value, wanted)


def _range(of: np.dtype[Any]) -> range:
    """The integers of a type."""
    return range(int(np.iinfo(of).min), int(np.iinfo(of).max) + 1)


def without_products(called: MatmulSpec, arrays: Sequence[Array]) -> tuple[MatmulSpec, list[Any]]:
    """A call and its arrays, the result last, with a K of 0 where alpha is a 0 that is known here.

    An alpha in a card's memory is not: the kernel then reads A and B, and keeps their NaN out.
    """
    alpha: object = called.alpha
    if alpha == ARG:
        alpha = arrays[len(called.operands) - len(called.scalars)]
    if isinstance(alpha, DeviceArray) or alpha != 0:
        return called, list(arrays)
    return replace(called, k=0), gpu_passes.sliced(called, arrays, "k", 0, 0)
