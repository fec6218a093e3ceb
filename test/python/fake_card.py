# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fake driver of a card, of which each launch runs its kernel in the emulator, and fakes of arrays in the card's memory."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from tilewright.runtime import device_arrays, emulated_gpu, gpu


class Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_size_t),
        ("cluster", ctypes.c_uint32 * 3),
        ("attributes", ctypes.c_uint32),
        ("follows", ctypes.c_uint32),
    )


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Launch), ctypes.c_void_p)


class Driver:
    """The fake driver, and the last launch that it was asked for."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.library.fake_log.restype = ctypes.c_char_p
        self.launched: Any = None
        self.last: Any = None
        self.error = ""
        self._callback = CALLBACK(self._launch)
        self.library.fake_on_launch(self._callback)

    def _launch(self, launch: Any, parameters: int) -> int:
        last, running = launch.contents, next(self.launched)
        self.last = {name: getattr(last, name) for name in ("shared_bytes", "stream", "follows")}
        self.last |= {name: tuple(getattr(last, name)) for name in ("grid", "block", "cluster")}
        text = ctypes.create_string_buffer(4096)
        everything = emulated_gpu._Buffer(0, 1 << 47, 1)
        failed = emulated_gpu._library().tilewrightEmulate(
            ctypes.c_void_p(running._code.address),
            ctypes.c_void_p(parameters),
            (ctypes.c_uint32 * 9)(*last.grid, *last.block, *last.cluster),
            ctypes.c_uint64(running.static_shared + last.shared_bytes),
            ctypes.byref(everything),
            ctypes.c_uint32(1),
            ctypes.c_uint32(0),
            text,
            ctypes.c_uint64(4096),
            None,
            ctypes.c_uint64(0),
            ctypes.byref(ctypes.c_uint64(0)),
        )
        self.error = text.value.decode()
        return 700 if failed else 0

    def runs(self, kernel: gpu.GpuKernel, *, aligned: bool = True, boxed: bool | None = None) -> None:
        """Says which kernel, or which ones in turns, are launched next: the driver is given no more than its machine code."""
        if boxed is None:  # Rows of the result are whole pieces of 16 bytes, unless it is known that they are not.
            columns, size = kernel.spec.result.shape[-1], kernel.spec.result.type.bits // 8
            boxed = not isinstance(columns, int) or columns * size % 16 == 0
        form = kernel._form(kernel._key(aligned, bool(boxed)))
        made = [emulated_gpu.EmulatedGpuKernel(each.texts["llvmir"], "matmul") for each in form.passes]
        self.launched = itertools.cycle(made)

    def count(self, what: str) -> int:
        return self.library.fake_log().decode().splitlines().count(what)


class OnCard:
    """A fake of an array in a card's memory, which says what stream it was exported for."""

    def __init__(self, values: np.ndarray, *, kind: int = 2, device: int = 0, old: bool = False) -> None:
        self.values, self.kind, self.device, self.old = values, kind, device, old
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.device

    def __dlpack__(self, *, stream: int | None = None, **newer: Any) -> Any:
        if self.old and newer:
            raise TypeError("max_version")
        self.streams.append(stream)
        bits = {"bfloat16": (np.uint16, 4)}.get(self.values.dtype.name)
        exported: Any = self.values if bits is None else self.values.view(bits[0])
        capsule = exported.__dlpack__(**({} if self.old else {"max_version": (1, 0)}))
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        if self.old:
            tensor = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(device_arrays._Tensor)).contents
        else:
            place = pointer(capsule, b"dltensor_versioned")
            tensor = ctypes.cast(place, ctypes.POINTER(device_arrays._Versioned)).contents.tensor
        tensor.device_kind = self.kind
        if bits is not None:
            tensor.code = bits[1]
        return capsule


class FakeTensor(OnCard):
    """With what torch's tensors have that tells one from another."""

    requires_grad = False

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values)
        self.shape, self.dtype = values.shape, f"torch.{values.dtype.name}"

    def data_ptr(self) -> int:
        return self.values.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(each // self.values.itemsize for each in self.values.strides)

    def get_device(self) -> int:
        return 0


FakeTensor.__module__ = "torch"
