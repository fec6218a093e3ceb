# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the extents of one call of a dynamic spec from its operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dims import Dim
from tilewright.errors import OperandError
from tilewright.spec import MatmulSpec


def of_call(spec: MatmulSpec, operands: Sequence[object], c: object = None) -> MatmulSpec:
    """The static spec of a call.

    Args:
        spec: What is computed.
        operands: The operands of the call but the result, in order; those that are no arrays tell nothing.
        c: The former result, where there is one.

    Raises:
        OperandError: An extent is none that `spec` takes, or no operand tells it.
    """
    if not spec.open:
        return spec
    known: dict[str, int] = {}
    for operand, array in (*zip(spec.operands, operands, strict=False), (spec.result, c)):
        if not isinstance(array, np.ndarray) or array.ndim != len(operand.shape):
            continue
        for name, wanted, size in zip(operand.names, operand.shape, array.shape, strict=True):
            if not isinstance(wanted, Dim) or name in known:
                continue
            if size not in wanted:
                raise OperandError(f"{name} is {size}", operand=operand.name, expected=wanted.words)
            known[name] = size
    missing = [name for name in spec.open if name not in known]
    if missing:
        raise OperandError(
            f"no operand tells {', '.join(missing)}", where=str(spec), expected="numpy arrays of its ranks"
        )
    return spec.sized(known)
