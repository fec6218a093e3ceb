# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of any library as numpy arrays over the same memory, and results in the caller's kind of array.

Kernels do this themselves. Here are those that look at arrays before they choose a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import OperandError
from tilewright.runtime.device_arrays import CUDA, CUDA_MANAGED
from tilewright.standalone import _native
from tilewright.standalone.packed_b import room

Array = np.ndarray[Any, Any]
ANY_ARRAY = Any
"""An array of numpy, torch, JAX, or whatever speaks DLPack or has `__array_interface__`."""


def view(name: str, array: ANY_ARRAY, expected: str = "an array", *, written: bool = False) -> Array:
    """The memory of the operand `name`.

    Args:
        name: The operand's name.
        array: It, an array of any library.
        expected: What errors say it should be.
        written: Whether it is written.

    Raises:
        OperandError: It is no array, or its memory cannot be used from here.
    """
    seen = array if type(array) is np.ndarray else _native.array_view(array, name, written=written)
    if not isinstance(seen, np.ndarray):
        raise OperandError(f"is a {type(array).__name__}", operand=name, expected=expected)
    return seen


def host_view(name: str, array: object, *, written: bool = False) -> Any:  # noqa: ANN401 - an array, or as it was
    """The memory of the operand `name` of a GPU's kernel; itself where it lies on a card, or is no array.

    Raises:
        OperandError: Its memory can be used neither from here nor from a card.
    """
    if type(array) is np.ndarray:
        return array
    where = getattr(array, "__dlpack_device__", None)
    if where is not None and int(where()[0]) in (CUDA, CUDA_MANAGED):
        return array
    return _native.array_view(array, name, written=written)


def view_or_array(name: str, value: Any) -> Array:  # noqa: ANN401 - whatever numpy takes
    """The memory of the operand `name`; of what is no array, such as a list, an array of its elements, as numpy makes it.

    Raises:
        OperandError: numpy makes no array of it, or its memory cannot be used from here.
    """
    seen = value if type(value) is np.ndarray else _native.array_view(value, name)
    if isinstance(seen, np.ndarray):
        return seen
    try:
        made, why = np.asarray(value), ""
    except (TypeError, ValueError, RuntimeError) as e:  # The last is torch's, of a list of tensors that want gradients.
        made, why = None, f": {e}"
    if made is None or (not made.ndim and made.dtype.kind in "OSU"):
        raise OperandError(
            f"is a {type(value).__name__} of which numpy makes no array{why}",
            operand=name,
            expected="an array, or a list",
        )
    return made


def kind(operands: Iterable[ANY_ARRAY]) -> ANY_ARRAY:
    """The first operand that is an array of another library than numpy, whose kind results have; None where there is none."""
    for each in operands:
        if not isinstance(each, np.ndarray) and hasattr(each, "__dlpack__"):
            return each
    return None


def wants_lines(kind: ANY_ARRAY) -> bool:
    """Whether a library copies memory that does not start at a cache line. Those with C functions of DLPack's take any."""
    return kind is not None and not hasattr(type(kind), "__dlpack_c_exchange_api__")


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array that starts at a cache line."""
    return room(prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def like(result: Array, kind: ANY_ARRAY) -> ANY_ARRAY:
    """A result as an array of this kind, over the same memory; itself where that is None.

    Raises:
        OperandError: The library has no such type.
    """
    return result if kind is None else _native.array_like(result, kind)
