# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Propagates sums with error bounds through the epilogue and the former C, to the result and its bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import scaling
from tilewright.entries import ROW_FORMS, TypedEntry
from tilewright.payload import propagation, row_forms
from tilewright.payload.propagation import Known
from tilewright.spec import MatmulSpec


def finish(
    spec: MatmulSpec, sums: Known, operands: Sequence[NDArray[Any] | Known], former: NDArray[Any] | None
) -> Known:
    """The result of `spec`, with its error bound.

    Args:
        spec: What is computed.
        sums: A·B, with how far a kernel's sums may be from it, before any epilogue.
        operands: The operands of the epilogue, which have been checked; of those like B their products with A. After them
            those of `MatmulSpec.scalars`.
        former: With beta other than 0, the former C.
    """
    chain = spec.finish
    arrays: list[Any] = scaling.in_order(chain, spec.scalars, [*operands, former])
    given = [
        array if isinstance(array, Known) else propagation.exact(_broadcast(array, operand.axes), str(operand.type))
        for array, operand in zip(arrays, chain.operands, strict=True)
    ]
    result = sums
    for entry in chain.entries:
        own, given = given[: len(entry.operands)], given[len(entry.operands) :]
        if entry.entry.form in ROW_FORMS:
            result = row_forms.apply(entry.entry.form, _wide(result, entry), entry.result)
        else:
            with np.errstate(all="ignore"):
                result = propagation.run(chain, entry, result, own)
    return propagation.converted(result, chain.result, spec.c_type.name)


def _wide(numbers: Known, entry: TypedEntry) -> Known:
    """The input of an entry, in the type in which it computes."""
    with np.errstate(all="ignore"):
        return propagation.widened(numbers, entry.source, entry.result)


def _broadcast(array: NDArray[Any], axes: str) -> NDArray[Any]:
    """An operand with an extent of one for each dimension that it has no extent for."""
    if axes == "mn":
        return array
    return array.reshape(array.size if axes == "m" else 1, array.size if axes == "n" else 1)
