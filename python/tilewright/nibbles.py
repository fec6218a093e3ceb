# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements that are stored in fewer bits than they are multiplied in: 4-bit packing, and the wider types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.dims import Dim
from tilewright.dtypes import DTYPES, STORED, DType, dtype, from_numpy, to_numpy
from tilewright.errors import OperandError, SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OTHER_SIGN = {"i8": "u8", "u8": "i8"}


def multiplied_as(own: str, other: str) -> str:
    """The type as which elements of type `own` are multiplied by such of type `other`.

    Those that are only stored are widened without loss: to the floats that they meet; otherwise to bf16, or to bytes. u4 gets the sign that
    the bytes that it meets have not: the instruction that every x86-64 with VNNI has multiplies unsigned by signed ones.

    Raises:
        SpecError: `own` is a type for scales only.
    """
    if own not in STORED:
        return own
    default = DTYPES[own].multiplied
    if default is None:
        raise SpecError(
            f"elements of {own} are multiplied", where="MatmulSpec", expected=f"{own} for scales of other elements only"
        )
    met = DTYPES[other].multiplied or other
    if DTYPES[met].kind == "float" and met in STORED[own]:
        return met
    return _OTHER_SIGN.get(met, default) if own == "u4" else default


def packed_extent(extent: Any, name: str) -> int:  # noqa: ANN401 - an Extent
    """Bytes of a row of `extent` elements of which two share one.

    Raises:
        SpecError: The extent is dynamic.
    """
    if isinstance(extent, Dim):
        raise SpecError(
            f"operand {name} has two elements in a byte along a dynamic extent",
            where="MatmulSpec",
            expected="a size there",
            remedy="Let another extent be dynamic, or compile one kernel for each size",
        )
    return -(-extent // 2)


def pack_nibbles(x: Any) -> NDArray[Any]:  # noqa: ANN401 - an array of any library
    """Packs two 4-bit elements into each byte, along the last axis, the first one into the low half.

    Args:
        x: An array of ml_dtypes' ``int4``, ``uint4`` or ``float4_e2m1fn``, of any library, of shape (..., n).

    Returns:
        Bytes (``uint8``) of shape (..., (n + 1) // 2), an array of numpy's; with an odd n the high half of the last one is 0.

    Raises:
        OperandError: `x` is no array of such elements, or has no axis.
    """
    import numpy as np

    from tilewright.standalone import _native

    # JAX hands out elements of four bits as a copy alone.
    seen = np.asarray(x) if hasattr(x, "__array__") else _native.array_view(x, "x")
    if not isinstance(seen, np.ndarray) or seen.ndim == 0:
        raise OperandError(f"is a {type(x).__name__}", operand="x", expected="an array of one or more dimensions")
    element = from_numpy(seen.dtype)
    if element.packed == 1:
        names = ", ".join(row.numpy for row in DTYPES.values() if row.packed > 1)
        raise OperandError(f"is of type {seen.dtype.name}", operand="x", expected=f"one of ml_dtypes' {names}")
    codes = np.zeros((*seen.shape[:-1], seen.shape[-1] + seen.shape[-1] % 2), np.uint8)
    # ml_dtypes keeps four bits in a byte each, and says nothing of the others.
    codes[..., : seen.shape[-1]] = np.ascontiguousarray(seen).view(np.uint8) & 15
    return codes[..., ::2] | codes[..., 1::2] << 4


def unpack_nibbles(x: Any, type: str, n: int) -> NDArray[Any]:  # noqa: ANN401 - an array of any library
    """Unpacks 4-bit elements from bytes: the inverse of `pack_nibbles`.

    Args:
        x: Bytes (``uint8``) of shape (..., (n + 1) // 2), in an array of any library.
        type: "i4", "u4" or "f4E2M1FN".
        n: Elements along the last axis.

    Returns:
        An array of numpy's of ml_dtypes' type for `type`, of shape (..., n).

    Raises:
        OperandError: `x` is no array of so many bytes.
        SpecError: `type` is no type of four bits.
    """
    import numpy as np

    from tilewright.standalone import _native

    element = dtype(type)
    if element.packed == 1:
        names = ", ".join(row.name for row in DTYPES.values() if row.packed > 1)
        raise SpecError(f"{type} has {element.bits} bits", where="unpack_nibbles", expected=f"one of {names}")
    x = _native.array_view(x, "x")
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8:
        found = x.dtype.name if isinstance(x, np.ndarray) else x.__class__.__name__
        raise OperandError(f"is of type {found}", operand="x", expected="an array of uint8")
    if x.ndim == 0 or x.shape[-1] != -(-n // 2):
        raise OperandError(f"has shape {x.shape}", operand="x", expected=f"{-(-n // 2)} bytes along the last axis")
    codes = np.empty((*x.shape[:-1], 2 * x.shape[-1]), np.uint8)
    codes[..., ::2], codes[..., 1::2] = x & 15, x >> 4
    return decoded(codes[..., :n], element)


def decoded(codes: NDArray[Any], element: DType) -> NDArray[Any]:
    """The 4-bit elements in the low halves of bytes."""
    import numpy as np

    numpy_type = to_numpy(element)
    if element.kind == "float":
        return np.ascontiguousarray(codes).view(numpy_type)
    return codes.astype(numpy_type)  # which keeps the low half, and its sign
