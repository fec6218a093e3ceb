# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What calls of GPU kernels refuse, in this machine's memory and in a card's, which needs no card to be told."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.errors import OperandError
from tilewright.runtime import device_arrays, gpu_call
from tilewright.runtime.device_arrays import DeviceArray

SPEC = tw.MatmulSpec(4, 8, 8)
F32 = np.dtype(np.float32)
PLACE = 1 << 40


def on_card(shape: tuple[int, ...], start: int = 0, strides: tuple[int, ...] | None = None, **how: Any) -> DeviceArray:
    """An array of f32 on a card, `start` bytes behind a place that nobody may read."""
    steps = strides or tuple(4 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    return DeviceArray(PLACE + start, shape, steps, F32, 0, **how)


A, B = on_card((4, 8)), on_card((8, 8), 4096)
"""A has 128 bytes."""


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (on_card((4, 8), writable=False), "is read-only"),
        (on_card((4, 8), 124), "overlaps operand a"),
        (on_card((4, 8), 4096 + 252), "overlaps operand b"),
        (on_card((4, 8), 1 << 20, (16, 4)), "so that its rows overlap"),
        (on_card((4, 8), 1 << 20, (0, 4)), "so that its rows overlap"),
        (on_card((4, 8), (1 << 20) + 2), "multiples of their 4 bytes"),
        (on_card((4, 8), 1 << 20, (34, 4)), "multiples of their 4 bytes"),
        (on_card((4, 7), 1 << 20), "shape"),
    ],
)
def test_a_result_on_a_card_is_checked(out: DeviceArray, words: str) -> None:
    with pytest.raises(OperandError, match=words):
        gpu_call.check_result(SPEC, out, [A, B])


def test_results_that_share_no_element_are_taken() -> None:
    gpu_call.check_result(SPEC, on_card((4, 8), 128), [A, B])
    # Columns of one array, and every second matrix of one.
    wide = on_card((4, 8), strides=(64, 4))
    gpu_call.check_result(SPEC, on_card((4, 8), 32, (64, 4)), [wide, B])
    batched = tw.MatmulSpec(4, 8, 8, batch=(2,), b_batch=())
    interleaved = on_card((2, 4, 8), 1 << 20, (32, 64, 4))
    gpu_call.check_result(batched, interleaved, [on_card((2, 4, 8)), B])
    gpu_call.check_result(tw.MatmulSpec(0, 8, 8), on_card((0, 8)), [on_card((0, 8)), B])


def test_what_is_too_hard_to_tell_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, between = on_card((4, 8), strides=(68, 4)), on_card((4, 8), 100, (72, 4))
    gpu_call.check_result(SPEC, between, [rows, B])
    monkeypatch.setattr(gpu_call, "_OVERLAP_WORK", 1)
    with pytest.raises(OperandError, match="overlaps operand a"):
        gpu_call.check_result(SPEC, between, [rows, B])


def test_arrays_whose_elements_are_between_others_are_refused() -> None:
    kernel = tw.compile(tw.MatmulSpec(4, 4, 4), target=tw.targets.gpu("sm_80").emulated(), schedule="simt")
    square = np.ones((4, 4), np.float32)
    records = np.ones(4, [("row", np.float32, 4), ("more", np.uint8)])["row"]
    shifted = np.ones(68, np.uint8)[1:65].view(np.float32).reshape(4, 4)
    for wrong in (records, shifted):
        with pytest.raises(OperandError, match="multiples of their 4 bytes"):
            kernel(wrong, square)


class Exported:
    """An array that speaks DLPack, as a library on a card would."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __dlpack__(self, *, stream: int, max_version: tuple[int, int]) -> object:
        assert stream == device_arrays.DEFAULT_STREAM
        return self.values.__dlpack__(max_version=max_version)


def test_memory_that_must_not_be_written_is_told() -> None:
    values = np.ones((4, 8), np.float32)
    assert device_arrays.view(Exported(values), "out", 0).writable
    values.flags.writeable = False
    frozen = device_arrays.view(Exported(values), "out", 0)
    assert not frozen.writable
    with pytest.raises(OperandError, match="is read-only"):
        gpu_call.check_result(SPEC, frozen, [A, B])


class Shifted(Exported):
    """The same, whose elements are some bytes behind the address of its memory."""

    def __dlpack__(self, *, stream: int, max_version: tuple[int, int]) -> object:
        capsule = super().__dlpack__(stream=stream, max_version=max_version)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        versioned = ctypes.cast(pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(device_arrays._Versioned))
        versioned.contents.tensor.data -= 64
        versioned.contents.tensor.byte_offset += 64
        return capsule


def test_elements_are_behind_the_address_of_their_memory() -> None:
    values = np.ones((4, 8), np.float32)
    assert device_arrays.view(Shifted(values), "a", 0).address == values.ctypes.data
