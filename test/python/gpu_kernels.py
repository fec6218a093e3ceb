# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands for GPU kernels, and the check of their results."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError


def each_case(cases: Sequence[tuple[dict[str, Any], dict[str, int]]]) -> pytest.MarkDecorator:
    """Runs a test for each `case`, the fields of a spec, with `parameters`, sizes by name; tests are called by the spec."""
    ids = [str(tw.MatmulSpec(**case)) for case, _ in cases]
    return pytest.mark.parametrize(("case", "parameters"), cases, ids=ids)


def array(operand: Any, rng: np.random.Generator, *, aligned: bool = True) -> np.ndarray:
    """Random numbers for an operand; rows of a matrix start at multiples of 16 bytes, or, if not `aligned`, do not."""
    kind = tw.dtypes.stored_numpy(operand.type)
    if operand.type.packed > 1:
        return rng.integers(0, 256, operand.stored).astype(kind)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = rng.integers(max(limits.min, -1000), min(limits.max, 1000) + 1, operand.shape).astype(kind)
    else:
        values = rng.uniform(-1, 1, operand.shape).astype(kind)
    if values.ndim < 2 or not values.size:
        return values
    per = 16 // kind.itemsize
    *outer, columns = values.shape
    pitch = columns + -columns % per + (0 if aligned else 1)
    memory = np.zeros(math.prod(outer) * pitch * kind.itemsize + 16, np.uint8)
    start = -memory.ctypes.data % 16
    whole = memory[start : memory.size - 16 + start].view(kind).reshape(*outer, pitch)
    placed = whole[..., :columns]
    placed[:] = values
    return placed


def check(kernel: gpu.GpuKernel, spec: tw.MatmulSpec, *, seed: int = 0, aligned: bool = True) -> None:
    """Calls a kernel with random operands of `spec`, and compares what comes with the reference."""
    rng = np.random.default_rng(seed)
    operands = [array(each, rng, aligned=aligned) for each in spec.operands]
    if spec.gathers:
        operands[2] %= spec.a_shape[0]
    former = [array(spec.result, rng, aligned=aligned)] if spec.beta else []
    expected, bound = (tw.reference(spec, *operands, *former), tw.error_bound(spec, *operands, *former))
    got = kernel(*operands, out=former[0].copy() if former else None, seed=seed)
    assert (np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= bound).all()


def check_that_breaking_is_caught(
    kernel: gpu.GpuKernel, spec: tw.MatmulSpec, pattern: str, replacement: str, finding: str
) -> None:
    """Runs a kernel as it is, and then with `pattern` in its last kernel's LLVM IR replaced, which the emulator has to find."""
    rng = np.random.default_rng(0)
    operands = [array(each, rng) for each in spec.operands]
    if spec.gathers:
        operands[2] %= spec.a_shape[0]
    kernel(*operands)
    last = kernel._stages.passes[-1]
    text, count = re.subn(pattern, replacement, last.texts["llvmir"])
    assert count
    kernel._made[True, True][last.strategy] = EmulatedGpuKernel(text, "matmul")
    with pytest.raises(EmulationError, match=finding):
        kernel(*operands)
