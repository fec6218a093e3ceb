# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peers: torch on the CPU, through oneDNN and by torch.mm."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands


class Torch(Library):
    """The common part of torch's peers."""

    def __init__(self) -> None:
        """Loads torch, with as many threads as this process has cores."""
        import torch  # type: ignore[import-not-found]

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.set_grad_enabled(False)
        self._torch: Any = torch

    def _tensor(self, array: np.ndarray) -> Any:  # noqa: ANN401 (torch is not there when this is checked)
        """A tensor in the array's memory."""
        if array.dtype.name == "bfloat16":
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(array)

    def _array(self, tensor: Any) -> np.ndarray:  # noqa: ANN401
        """The tensor's elements; bfloat16 as float32, which holds it exactly."""
        return (tensor.float() if tensor.dtype == self._torch.bfloat16 else tensor).numpy()


class OneDnn(Torch):
    """oneDNN's matmul: torch's linear layer with f32, torch.mm (torch.matmul) with bf16, and torch._int_mm with 8-bit integers.

    What is timed includes torch's dispatch, one to four microseconds. bf16 is rounded to bf16 once more at the end, as torch
    offers no other. B packed ahead of time is in the order that oneDNN chose for it; with integers the product is then
    converted to f32, as torch offers no other.
    """

    @property
    def version(self) -> str:
        """OneDNN's version, and torch's."""
        words = self._torch.__config__.show().split("MKL-DNN v")
        return f"{words[1].split()[0] if len(words) > 1 else 'unknown'}, torch {self._torch.__version__}"

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        a, b, c = map(self._tensor, (operands.a, operands.b, operands.c))
        if operands.a.dtype.kind in "iu":
            return partial(self._torch._int_mm, a, b, out=c)
        if operands.a.dtype.name == "bfloat16":
            return partial(self._torch.matmul if a.ndim > 2 else self._torch.mm, a, b, out=c)
        return partial(self._torch.ops.mkldnn._linear_pointwise, a, b.t(), None, "none", [], "")

    def bind_packed(self, operands: Operands) -> Call:
        """See `Library.bind_packed`."""
        torch = self._torch
        a, weight = self._tensor(operands.a), self._tensor(operands.b).t().contiguous()
        if operands.a.dtype.kind in "iu":
            columns = operands.b.shape[1]
            packed = torch.ops.onednn.qlinear_prepack(weight, list(a.shape))
            scales, zeros = torch.ones(columns), torch.zeros(columns, dtype=torch.int32)
            product = torch.ops.onednn.qlinear_pointwise
            return partial(product, a, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, a.shape[0])
        return partial(torch.ops.mkldnn._linear_pointwise, a, packed, None, "none", [], "")

    def fetch(self, returned: object, operands: Operands) -> np.ndarray:
        """See `Library.fetch`."""
        return self._array(returned)


class TorchMm(Torch):
    """torch.mm (torch.matmul of batches): MKL for f32 and f64 in torch's own builds, own loops for f16 where oneDNN has none."""

    @property
    def version(self) -> str:
        """Torch's version."""
        return str(self._torch.__version__)

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        a, b, c = map(self._tensor, (operands.a, operands.b, operands.c))
        return partial(self._torch.matmul if a.ndim > 2 else self._torch.mm, a, b, out=c)
