# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a product would take with some sizes of strategy `tensor_memory`: as `warpgroup_time` counts it, by the rates of another chip.

No rate was measured here.
"""

from __future__ import annotations

from types import MappingProxyType

from tilewright.schedules.gpu.tensor_memory import LANES, TensorMemoryTile
from tilewright.schedules.gpu.warpgroup_time import (
    DEPTH_BYTES,
    L2_BYTES,
    L2_BYTES_EACH,
    SHARED_BYTES,
    Chip,
    Work,
    cycles_on,
    resident,
)

_COLUMNS_A_CYCLE = 2
"""Of an instruction of 128 rows. Source: NVIDIA's data sheet of the HGX B200: 36 PFLOP/s of 16-bit floats by 8 chips, with sparsity, are
2.25 of each without; by 148 multiprocessors at 1.86 GHz they are 8192 a cycle and multiprocessor; twice as many of 8 bits, half as
many of tf32, and so the same cycles for 32 bytes along K."""
CHIP = Chip(gpcs=MappingProxyType({18: 6, 20: 2}), l2_bytes=L2_BYTES / resident(1) * 148, memory_bytes=4301)
"""Memory: NVIDIA's data sheet of the HGX B200: 8 TB/s, at 1.86 GHz. What is not published is an assumption: groups of as many
multiprocessors, and a cache that gives each as much as on Hopper."""
_STEP_CYCLES = 300
"""An estimate, as on Hopper: the loop of the thread that copies."""
_ADDED_BYTES = 10
"""An estimate: 16 sums at a time of each of 128 threads, in the 800 cycles that they take to come from the L2 cache."""


def cycles(work: Work, sizes: TensorMemoryTile) -> float:
    """Cycles that a product would take: the longest of what multiprocessors, the L2 cache and memory take, and a tile's end."""
    overlaps = sizes.buffers > 1
    return cycles_on(CHIP, work, sizes, _step_cycles(work, sizes), overlaps=overlaps, added=_ADDED_BYTES)


def _step_cycles(work: Work, sizes: TensorMemoryTile) -> float:
    """Cycles of a step over K of a multiprocessor."""
    instructions = sizes.down // LANES * sizes.bk * work.bytes_in // DEPTH_BYTES
    products = instructions * sizes.across / _COLUMNS_A_CYCLE
    # What instructions read, and what copies write: of a pair, each block has half of B, which comes to both.
    held = sizes.held_columns if not sizes.swapped else sizes.across
    copied = (sizes.bm + sizes.held_columns) * sizes.bk * work.bytes_in
    moved = instructions * (LANES + held) * DEPTH_BYTES + copied
    return max(products, moved / SHARED_BYTES, copied / L2_BYTES_EACH, _STEP_CYCLES)
