# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of a kernel's time beside published times: the steps of fast.cu's matmul, and what they must show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cuda_sources
import numpy as np
import pytest
from tilewright import ptx
from tilewright.runtime import emulated_time
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, TensorMap
from tilewright.runtime.launches import Launch

N = 4096
PUBLISHED = {1: 32, 2: 317, 3: 423, 4: 498, 5: 610, 6: 660, 7: 704, 8: 734, 9: 747, 10: 758, 11: 764}
"""TFLOP/s of each step, bf16, 4096³, H100. Source: P. Shankhdhar, "Outperforming cuBLAS on H100: a Worklog", 2024, and, with the
fourth one apart, A. Gordić, "Inside NVIDIA GPUs: Anatomy of high performance matmul kernels", 2025."""
TILES = {1: (128, 128), 2: (64, 64), 3: (128, 128), 4: (128, 128)}
THREADS = {1: 128, 2: 128, 3: 128, 4: 256}
RESIDENT = {1: 3, 2: 8, 3: 2}
"""Blocks of a multiprocessor by the registers that ``ptxas -v`` tells: 161, 61 and 197 a thread; others have one."""
SLOTS = {1: 0, 2: 0, 3: 0, 4: 5}
MULTIPROCESSORS = 128
"""That the author's persistent kernels use."""


def arguments(number: int) -> tuple[Launch, list[Any]]:
    """A launch as the author's host code makes it."""
    a, b, c = (cuda_sources.matrix(N, N) for _ in range(3))
    down, across = TILES.get(number, (128, 256))
    blocks = MULTIPROCESSORS if number > 5 else (N // down) * (N // across)
    shared = SLOTS.get(number, 3) * (down + across) * 64 * 2
    sizes = [np.int32(N)] * 3
    if number == 1:
        return Launch((N // 128, N // 128, 1), (128, 1, 1)), [*sizes, a, b, c]
    if number <= 6:
        maps = [TensorMap(each, (rows, 64), 128, by_value=number == 6) for each, rows in ((a, down), (b, across))]
        rest = [np.uint64(0)] * (number == 3)
        launch = Launch((blocks, 1, 1), (THREADS.get(number, 384), 1, 1), dynamic_shared=shared)
        return launch, [*sizes, c, *maps, *rest]
    several = number == 7  # Five axes, two of them of extent 1.
    boxes = [
        TensorMap(
            cuda_sources.in_boxes(each)[None, None] if several else cuda_sources.in_boxes(each),
            (1, 1, 1, rows, 64) if several else (1, rows, 64),
            128,
            by_value=True,
        )
        for each, rows in ((a, down), (b, across))
    ]
    if number < 10:
        return Launch((blocks, 1, 1), (384, 1, 1), (1 if several else 2, 1, 1), dynamic_shared=shared), [
            *sizes,
            c,
            *boxes,
        ]
    stored = TensorMap(cuda_sources.in_boxes(c), (2, 256, 64), writable=True, by_value=True)
    rest = []
    if number == 11:  # Which tiles each cluster has; the model knows no cache, and so no order of theirs.
        tiles = [(down << 16) | across for down in range(N // 256) for across in range(N // 256)]
        order = np.full((MULTIPROCESSORS, 128), -1, np.int32)
        for place, tile in enumerate(tiles):
            order[place % 64, place // 64] = tile
        rest = [order]
    shared += 128 * 256 * 2 + 6 * 8 + 128 * 4 + 128
    return Launch((blocks, 1, 1), (384, 1, 1), (2, 1, 1), dynamic_shared=shared), [*sizes, stored, *boxes, *rest]


def rate(number: int, into: Path) -> float:
    """TFLOP/s of a step as the model has it."""
    module = ptx.translated(cuda_sources.fast(number, into), counts=True)
    # Step 3 has a form that measures itself; it comes first.
    kernel = EmulatedGpuKernel(module.llvmir, list(module.kernels)[-1])
    launch, given = arguments(number)
    events, counts = kernel.trace(launch, *given)
    found = emulated_time.estimate(
        events,
        counts,
        warps=launch.block[0] // 32,
        blocks=launch.grid[0] * launch.grid[1],
        cluster=launch.cluster[0],
        resident=RESIDENT.get(number, 1),
    )
    return 2 * N**3 / found.seconds / 1e12


def test_the_steps_of_fast_cu(tmp_path: Path) -> None:
    found = {number: rate(number, tmp_path) for number in PUBLISHED}
    assert all(value == pytest.approx(PUBLISHED[number], rel=0.15) for number, value in found.items())
    ranks = sorted(found, key=lambda number: found[number])
    distance = sum((place + 1 - number) ** 2 for place, number in enumerate(ranks))
    assert 1 - 6 * distance / (len(ranks) * (len(ranks) ** 2 - 1)) > 0.85  # Spearman's coefficient
    # Apart by more than 15 % as published, they are in that order.
    far = [(one, other) for one in found for other in found if PUBLISHED[one] * 1.15 < PUBLISHED[other]]
    assert all(found[one] < found[other] for one, other in far)
