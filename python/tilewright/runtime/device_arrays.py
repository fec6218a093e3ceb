# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays in a card's memory, of whatever library, by DLPack: where they are, and nothing copied.

Sources: dlpack.h, version 1.1, and "Python Specification for DLPack" for how streams are handed over.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.dtypes import DTYPES, DType, to_numpy
from tilewright.errors import OperandError
from tilewright.payload.abi import dlpack_code

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""DLPack's kinds of devices."""
DEFAULT_STREAM = 1
"""DLPack's number of CUDA's default stream, whose handle is 0."""
_VERSION = (1, 1)
_READ_ONLY = 1
"""The flag of a capsule of version 1 whose memory must not be written."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array in a card's memory, with the names that numpy's arrays have.

    Attributes:
        address: Of its first element.
        shape: Its extents.
        strides: Bytes from an element to the next, along each axis.
        dtype: numpy's element type.
        device: The card's number.
        writable: Whether it may be written.
        owner: What keeps its memory.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    writable: bool = True
    owner: object = field(default=None, compare=False, repr=False)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Library:
    """What libraries of arrays on cards each call in their own way.

    Attributes:
        stream: The handle of the stream on which the library works at present, on that card.
        empty: A new array of a shape and type on a card.
        bytes_of: An array of small floats as one of bytes, and the type's name; None where it is none.
        identity: An array's address; and its shape, strides, type and card, and what else decides whether it can be exported.
        current: As `stream`, of the card of an array.
    """

    stream: Callable[[Any, int], int]
    empty: Callable[[Any, tuple[int, ...], DType, int], Any]
    bytes_of: Callable[[Any, Any], tuple[Any, str] | None]
    identity: Callable[[Any], tuple[int, object]]
    current: Callable[[Any], int]


def _torch_bytes(torch: Any, array: Any) -> tuple[Any, str] | None:  # noqa: ANN401 - a library, and its array
    name = str(array.dtype).removeprefix("torch.")
    return (array.view(torch.uint8), name) if name.startswith("float8") else None


def _torch_current(array: Any) -> int:  # noqa: ANN401 - torch's
    """The handle of the current stream: what `torch.cuda.current_stream` makes an object of takes longer than a launch."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    number = array.get_device()
    return raw(number) if raw is not None else torch.cuda.current_stream(number).cuda_stream


def _cupy_empty(cupy: Any, shape: tuple[int, ...], type_: DType, device: int) -> Any:  # noqa: ANN401 - likewise
    with cupy.cuda.Device(device):
        return cupy.empty(shape, to_numpy(type_))


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        "torch": Library(
            stream=lambda torch, device: torch.cuda.current_stream(device).cuda_stream,
            empty=lambda torch, shape, type_, device: torch.empty(
                shape, dtype=getattr(torch, type_.numpy), device=f"cuda:{device}"
            ),
            bytes_of=_torch_bytes,
            identity=lambda array: (
                array.data_ptr(),
                (array.shape, array.stride(), array.dtype, array.device, array.requires_grad),
            ),
            current=_torch_current,
        ),
        "cupy": Library(
            stream=lambda cupy, device: cupy.cuda.get_current_stream().ptr,
            empty=_cupy_empty,
            bytes_of=lambda cupy, array: None,
            identity=lambda array: (array.data.ptr, (array.shape, array.strides, array.dtype, array.device.id)),
            current=lambda array: sys.modules["cupy"].cuda.get_current_stream().ptr,
        ),
    }
)
"""By the name of their package."""


def library_of(array: object) -> tuple[Library, Any] | None:
    """The library of an array, and its module; None of one that is not known."""
    package = type(array).__module__.partition(".")[0]
    return (LIBRARIES[package], sys.modules[package]) if package in LIBRARIES else None


def device_of(array: object) -> int | None:
    """The number of the card on which an array is; None where it is in this machine's memory.

    Raises:
        OperandError: It is neither.
    """
    if isinstance(array, np.ndarray):
        return None
    where = getattr(array, "__dlpack_device__", None)
    if where is None or not hasattr(array, "__dlpack__"):
        raise OperandError(
            f"is a {type(array).__name__}",
            where="call of a GPU kernel",
            expected="a numpy array, or one that speaks DLPack (torch, CuPy)",
        )
    kind, number = where()
    if int(kind) in (CUDA, CUDA_MANAGED):
        return int(number)
    raise OperandError(
        f"is a {type(array).__name__} on a device of kind {int(kind)}",
        where="call of a GPU kernel",
        expected="an array on a CUDA device, or a numpy array",
        remedy="Move it there (x.cuda()), or hand over a numpy array",
    )


def view(array: object, name: str, stream: int) -> DeviceArray:
    """Where an array that speaks DLPack is; what is pending on it is ordered before `stream`, the handle of one.

    Raises:
        OperandError: It cannot be exported, or its elements are of no type that is known.
    """
    found = library_of(array)
    known = found[0].bytes_of(found[1], array) if found is not None else None
    exported, small = known if known is not None else (array, None)
    try:
        capsule = _capsule(exported, stream or DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise OperandError(
            f"cannot be exported: {e}", operand=name, expected="an array that DLPack can describe"
        ) from None
    return _read(capsule, name, small, array)


def _capsule(array: Any, stream: int) -> object:  # noqa: ANN401 - of any library
    """A capsule of the newest version that the array's library knows."""
    try:
        return array.__dlpack__(stream=stream, max_version=_VERSION)
    except TypeError:  # It is older than versions.
        return array.__dlpack__(stream=stream)


def _read(capsule: object, name: str, small: str | None, owner: object) -> DeviceArray:
    """What a capsule describes; it is not consumed, but kept with the array."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    writable = True
    if valid(capsule, b"dltensor_versioned"):
        versioned = ctypes.cast(pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_Versioned)).contents
        if versioned.major != _VERSION[0]:
            raise OperandError(f"is described by version {versioned.major} of DLPack", operand=name, expected="1")
        tensor, writable = versioned.tensor, not versioned.flags & _READ_ONLY
    else:
        tensor = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    kind = (tensor.code, tensor.bits)
    rows = {dlpack_code(each.name): each for each in DTYPES.values() if each.packed == 1}
    if tensor.lanes != 1 or kind not in rows:
        raise OperandError(
            f"has elements of DLPack's type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes",
            operand=name,
            expected=f"one of {', '.join(each.name for each in rows.values())}",
        )
    type_ = to_numpy(rows[kind])
    if small is not None:
        type_ = to_numpy(next(each for each in DTYPES.values() if each.numpy == small))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    counts = (
        tuple(tensor.strides[axis] for axis in range(tensor.ndim))
        if tensor.strides
        else tuple(prod(shape[axis + 1 :]) for axis in range(tensor.ndim))
    )
    return DeviceArray(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=tuple(count * type_.itemsize for count in counts),
        dtype=type_,
        device=tensor.device,
        writable=writable,
        owner=(owner, capsule),
    )
