# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`reference` and `error_bound` of any spec.

Those of an operator are in ``payload/<operator>_reference.py``: ``known(spec, *operands)`` gives the result in float64 or int64, and how
far a right kernel may be off.
"""

from __future__ import annotations

from importlib import import_module
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dims import Dim
from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload import reference as products
from tilewright.spec import MatmulSpec


def reference(spec: MatmulSpec | OperatorSpec, *operands: Any, c: NDArray[Any] | None = None) -> NDArray[Any]:  # noqa: ANN401
    """The reference result of `spec`, in float64, or in int64 where it is exact.

    Args:
        spec: What to compute: a product, as `payload.reference.reference` has it, or an operator.
        *operands: All operands in the order of the call, of the spec's shapes and types, in arrays of any library, as calls take them.
        c: For a product with beta 1, and only then, the former C.

    Raises:
        OperandError: A shape or an element type is not that of the spec.
    """
    operands, c = _seen(spec, operands, c)
    if isinstance(spec, OperatorSpec):
        return _known(spec, operands, c)[0]
    return products.reference(spec, *operands, c=c)


def error_bound(
    spec: MatmulSpec | OperatorSpec,
    *operands: Any,  # noqa: ANN401
    c: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """How far from `reference` a right kernel may be, elementwise; the arguments and errors are the same.

    `payload.reference.error_bound` says what it is for products; those of operators are made of it.
    """
    operands, c = _seen(spec, operands, c)
    if isinstance(spec, OperatorSpec):
        return _known(spec, operands, c)[1]
    return products.error_bound(spec, *operands, c=c)


def known(
    spec: MatmulSpec | OperatorSpec,
    *operands: Any,  # noqa: ANN401
    c: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """`reference` and `error_bound` at once; the arguments and errors are the same."""
    operands, c = _seen(spec, operands, c)
    if isinstance(spec, OperatorSpec):
        return _known(spec, operands, c)
    return products.reference(spec, *operands, c=c), products.error_bound(spec, *operands, c=c)


def _seen(spec: MatmulSpec | OperatorSpec, operands: tuple[Any, ...], c: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ANN401
    """The memory of operands and of C as numpy's arrays; what is no array as it is."""
    names = [each.name for each in spec.operands]
    named = zip_longest(operands, names[: len(operands)], fillvalue="a further operand")
    return tuple(_view(each, name) for each, name in named), _view(c, "c")


def _view(array: Any, name: str) -> Any:  # noqa: ANN401
    if array is None or type(array) is np.ndarray:
        return array
    # Not at the top: results are checked on the machine of a card too, which has nothing that was built.
    from tilewright.standalone import _native

    return _native.array_view(array, name)


def _known(
    spec: OperatorSpec, operands: tuple[NDArray[Any], ...], c: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The result, and its bound."""
    if c is not None:
        raise OperandError("is given", operand="c", expected=f"none, as {spec} never reads it")
    check(spec, operands)
    return import_module(f"tilewright.payload.{spec.operator}_reference").known(spec, *operands)


def check(spec: OperatorSpec, operands: tuple[NDArray[Any], ...]) -> None:
    """Checks that operands have the shapes and types of the spec.

    Raises:
        OperandError: One has not, or there are too many or too few.
    """
    wanted = spec.operands
    if len(operands) != len(wanted):
        names = ", ".join(each.name for each in wanted)
        raise OperandError(f"{len(operands)} operands", where="reference", expected=f"{len(wanted)} ({names})")
    for each, array in zip(wanted, operands, strict=True):
        if not isinstance(array, np.ndarray):
            raise OperandError(f"is a {type(array).__name__}", operand=each.name, expected="a numpy array")
        if not _fits(array.shape, each.shape):
            raise OperandError(f"has shape {array.shape}", operand=each.name, expected=f"{each.shape} for {spec}")
        if array.dtype != to_numpy(each.type):
            raise OperandError(
                f"is of type {array.dtype.str}", operand=each.name, expected=f"{each.type.numpy} for {spec}"
            )


def _fits(shape: tuple[int, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether an array of that shape has the extents of the spec; dynamic ones take any that they allow."""
    return len(shape) == len(wanted) and all(
        size in extent if isinstance(extent, Dim) else size == extent
        for size, extent in zip(shape, wanted, strict=True)
    )
