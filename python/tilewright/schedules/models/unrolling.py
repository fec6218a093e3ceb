# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many steps over K an iteration of the hot loop takes on targets with few registers."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import Dim
from tilewright.schedules.models.register_tiles import MANY_REGISTERS
from tilewright.schedules.models.sizes import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MOST_STEPS = 4
"""Steps of an iteration at most: with eight, where prefetches are among them, LLVM loads so far ahead that sums are spilled. A tile of 12
sums is multiplied in six cycles, and the 22 instructions of a step, with the loop's own, start in four; in eight where another program
shares the core. So shared, on Zen 3, times the speed of one step, with 2 and 4: f32 768 x 1024 x 1024 1.03, 1.05, 64 x 64 x 64, unpacked,
1.04, 1.08, 65536 x 64 x 64 1.06, 1.12, 17 x 1000 x 31 1.02, 1.11."""
_VECTORS = 2
"""Vectors of columns of a tile at least: of one vector, rows of A are most of what is read, and their addresses are spilled."""


def unrolled(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes with the steps over K that an iteration of a loop takes, which has two iterations at least.

    With many registers tiles have more sums, and the rest of a step hides behind them. Targets that take elements of A by lane have longer
    steps, of which the lowering takes several anyway. Where products are added by another instruction, or an instruction has several of
    them, they need registers of their own: of several steps at once, LLVM spills sums (u8 by i8 256 x 256 x 256 took 2.5 times as long).
    """
    narrow = sizes.nr < _VECTORS * target.lanes(spec.acc_type)
    apart = not target.fuses or target.dot(*spec.multiplied).depth > 1
    if target.vector_registers >= MANY_REGISTERS or target.by_lane or narrow or apart or isinstance(spec.k, Dim):
        return sizes
    steps = min(sizes.kc, max(spec.k, 1))
    count = _MOST_STEPS
    while 2 * count > steps:
        count //= 2
    return replace(sizes, unroll=count) if count > 1 else sizes
