# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that calls on a GPU are given where an operand is one number, such as alpha, become arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError
from tilewright.operator_specs import OperatorSpec
from tilewright.spec import MatmulSpec


def as_arrays(spec: MatmulSpec | OperatorSpec, operands: Sequence[Any]) -> tuple[Any, ...]:
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
