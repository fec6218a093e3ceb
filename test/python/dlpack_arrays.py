# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of no library, made by hand: they speak DLPack in every way that its specification allows, and in wrong ways."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CPU, CUDA, CUDA_HOST = 1, 2, 3
READ_ONLY, COPIED = 1, 2
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Unversioned(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


@_DESTRUCTOR
def _drop(capsule: int) -> None:
    """What the specification asks of a capsule that goes: nobody took over its tensor, so its deleter is called."""
    for name, kind in ((b"dltensor", Unversioned), (b"dltensor_versioned", Versioned)):
        if _valid(capsule, name):
            managed = kind.from_address(_pointer(capsule, name))
            if managed.deleter:
                _DELETER(managed.deleter)(ctypes.addressof(managed))


_HANDED_OUT: list[Any] = []
"""Tensors and their arrays: what took one may outlive the other, so they stay."""


@dataclass
class Foreign:
    """An array that is no NumPy array, in the memory of one.

    Attributes:
        array: Where its elements are.
        versioned: Whether it knows version 1 of DLPack.
        flags: Those of version 1.
        major: The version that it says.
        device: The kind of its device.
        strides: In elements; None: as they are; empty: a null pointer.
        offset: Bytes by which the tensor's data is before its first element.
        changes: Fields of the DLTensor that are set last, to wrong values for example.
        alive: How many tensors were handed out and not dropped yet.
        asked: The keywords of each call of `__dlpack__`.
    """

    array: np.ndarray[Any, Any]
    versioned: bool = True
    flags: int = 0
    major: int = 1
    device: int = CPU
    strides: Sequence[int] | None = None
    offset: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    alive: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device."""
        return self.device, 0

    def __dlpack__(self, **options: Any) -> object:
        """A capsule."""
        self.asked.append(options)
        if options and not self.versioned:
            raise TypeError(f"unexpected keywords {list(options)}")
        managed: Any = Versioned(major=self.major, minor=0, flags=self.flags) if self.versioned else Unversioned()
        managed.tensor = self.tensor()
        deleter = _DELETER(self._deleted)
        managed.deleter = ctypes.cast(deleter, ctypes.c_void_p)
        _HANDED_OUT.extend((managed, deleter, self))
        self.alive += 1
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _new(ctypes.addressof(managed), name, ctypes.cast(_drop, ctypes.c_void_p))

    def tensor(self) -> Tensor:
        """The DLTensor."""
        steps = [stride // self.array.itemsize for stride in self.array.strides]
        strides = steps if self.strides is None else list(self.strides)
        shape = (ctypes.c_int64 * max(1, self.array.ndim))(*self.array.shape)
        tensor = Tensor(
            data=self.array.ctypes.data - self.offset,
            device_kind=self.device,
            rank=self.array.ndim,
            kind=_CODES.get(self.array.dtype.kind, 4),
            bits=self.array.itemsize * 8,
            lanes=1,
            shape=shape,
            strides=(ctypes.c_int64 * len(strides))(*strides) if strides else None,
            byte_offset=self.offset,
        )
        for name, value in self.changes.items():
            setattr(tensor, name, value)
        self.kept += [shape, tensor]
        return tensor

    def _deleted(self, _: int) -> None:
        self.alive -= 1


class Namespace:
    """What makes arrays of a library of those of others."""

    @staticmethod
    def from_dlpack(array: Any) -> Library:
        """An array of this library over the same memory."""
        return Library(np.from_dlpack(array))


class Library(Foreign):
    """An array of a library that follows the array API standard."""

    def __array_namespace__(self) -> type[Namespace]:
        """The library's functions."""
        return Namespace


_BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_FROM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_TO = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", _FROM),
        ("to_object", _TO),
        ("borrow", _BORROW),
        ("current_stream", ctypes.c_void_p),
    )


class Exchanged(Foreign):
    """An array of a library that has C functions too. `requires_grad` and `is_neg` are as torch's."""

    requires_grad = False
    negated = False
    borrowed = 0

    def is_neg(self) -> bool:
        """Whether elements are to be negated when they are read."""
        return self.negated


@_BORROW
def _borrow(value: Exchanged, tensor: Any) -> int:
    value.borrowed += 1
    ctypes.memmove(tensor, ctypes.addressof(value.tensor()), ctypes.sizeof(Tensor))
    return 0


@_FROM
def _from_object(value: Exchanged, made: Any) -> int:
    managed = Versioned(major=1, minor=0, flags=value.flags, tensor=value.tensor())
    value.kept.append(managed)
    made[0] = ctypes.addressof(managed)
    return 0


@_TO
def _to_object(managed: int, made: Any) -> int:
    tensor = Versioned.from_address(managed).tensor
    shape = [tensor.shape[axis] for axis in range(tensor.rank)]
    if tensor.kind != _CODES["f"]:  # This library has floats only.
        return -1
    data = (ctypes.c_uint8 * (int(np.prod(shape)) * tensor.bits // 8)).from_address(tensor.data)
    array = Exchanged(np.frombuffer(data, f"f{tensor.bits // 8}").reshape(shape))
    array.kept.append(managed)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
    made[0] = id(array)
    return 0


_NAME = b"dlpack_exchange_api"  # A capsule keeps the address of its name.
FUNCTIONS = Exchange(1, 1, None, None, _from_object, _to_object, _borrow, None)
Exchanged.__dlpack_c_exchange_api__ = _new(ctypes.addressof(FUNCTIONS), _NAME, None)  # type: ignore[attr-defined]
