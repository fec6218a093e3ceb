# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs GPU kernels in the emulator, whose threads are fibers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.payload.attention_pass import AttentionPass
from tilewright.payload.patch_windows import Window
from tilewright.runtime import gpu_call, gpu_passes
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, TensorMap
from tilewright.spec import MatmulSpec

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages
    from tilewright.runtime.card_calls import CardKernel
    from tilewright.runtime.gpu_passes import Pass
    from tilewright.runtime.launches import Launch

_ENTRY = "matmul"
_PROCESSORS = 4
"""Multiprocessors of the emulated chip: few, so that blocks have several tiles of small products."""


def call(kernel: CardKernel, called: MatmulSpec | AttentionPass, arrays: Sequence[Any], seed: int) -> None:
    """Runs the kernel in the emulator of NVVM."""
    aligned = gpu_call.are_aligned(called, arrays, kernel.row_multiple)
    if aligned and isinstance(called, MatmulSpec):  # The form for other rows is the same for all.
        kernel = kernel.of_call(called)
    form, made = kernel.code(
        aligned,
        lambda stages: {each.strategy: _emulated(each) for each in stages.passes},
        boxed=gpu_call.is_boxed(called, arrays),
    )
    for each in gpu_passes.passes(form, called, arrays, gpu_call.aligned_empty):
        sizes = gpu_call.launch(each.form, each.spec, _PROCESSORS)
        made[each.form.strategy](sizes, *arguments(each, sizes), seed=seed)


def arguments(of: Pass, sizes: Launch) -> list[Any]:
    """What a launch of such sizes gives a kernel: its arrays as MLIR's descriptors of memrefs, its workspace and its tensor maps."""
    spec, last = of.form.spec, len(of.arrays) - 1
    found: list[Any] = []
    for array, (shape, strides) in zip(of.arrays, gpu_call.laid_out(spec, of.spec, of.arrays), strict=True):
        found += [array, array, np.int64(0), *map(np.int64, shape), *map(np.int64, strides)]
    if workspace := gpu_call.workspace(of.form, sizes):
        found.append(np.zeros(workspace, np.uint8))
    for box in of.form.boxes:
        array = _some(_looped(spec, of.arrays, box.operand))
        if box.window:
            array = _images(array, box.window)
        map_ = TensorMap(
            array, box.shape, box.swizzle, box.atom, box.window, writable=box.operand == last, by_value=True
        )
        found.append(map_)
    return found


def _emulated(stages: GpuStages) -> EmulatedGpuKernel:
    title = f"{stages.whole} for {stages.target.name}, {stages.strategy}"
    return EmulatedGpuKernel(as_nvvm(stages), _ENTRY, title=title)


def as_nvvm(stages: GpuStages) -> str:
    """A form's LLVM IR as the emulator takes it."""
    if stages.target.family != "amd":
        return stages.texts["llvmir"]
    from tilewright.runtime import emulated_amd

    return emulated_amd.translated(stages)


def _looped(spec: gpu_call.Problem, arrays: Sequence[Any], number: int) -> np.ndarray[Any, Any]:
    """An operand, or the result, with those axes of a batch that the kernel takes: the others have one entry."""
    axes = gpu_call.looped(spec, number)
    array = arrays[number]
    return array[tuple(slice(None) if axis in axes else 0 for axis in range(array.ndim))]


def _images(row: np.ndarray[Any, Any], window: Window) -> np.ndarray[Any, Any]:
    """The images that a row of elements has one after the other."""
    strides = (*(pitch * row.itemsize for pitch in window.pitches), row.itemsize)
    shape = (window.images(row.shape[1]), *window.extents)
    return np.lib.stride_tricks.as_strided(row, shape, strides)


def _some(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An operand as a tensor map takes it: not without elements, and rows, even of one, apart by a multiple of 16 bytes.

    For one without elements a card's map has some of another array, which no kernel may use: here they are not numbers.
    """
    if not array.size:
        bytes_ = np.full(gpu_call.ALIGNMENT * array.itemsize, 0xFF, np.uint8)
        return bytes_.view(f"u{array.itemsize}").reshape((1,) * (array.ndim - 1) + (-1,))
    strides = [
        stride if size > 1 else -(-stride // gpu_call.ALIGNMENT) * gpu_call.ALIGNMENT
        for size, stride in zip(array.shape[:-1], array.strides[:-1], strict=True)
    ]
    words = array.view(f"u{array.itemsize}")  # NumPy cannot stride over every type of ml_dtypes.
    return np.lib.stride_tricks.as_strided(words, strides=(*strides, array.itemsize))
