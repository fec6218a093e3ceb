# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scalable`: cache blocking, with register tiles and panels as wide as the machine's vectors, whatever they are."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.schedules.decisions import ScalableTiles
from tilewright.schedules.models import scalable_blocks
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.steps.decided_blocks import decided_blocks
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def scalable(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    nr of `blocking` are the columns of a register tile for vectors of 128 bits; of a machine with longer ones, which is not known
    while compiling, a tile has as many times more, NR. mc, nc and kc are as in strategy `packed`.

    Before: ``C += A * B``. After::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for ic in 0..M step mc:
              C[ic:ic+mc, jc:jc+nc] += A[ic:ic+mc, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]      (decided)

    and, once it is lowered, with every tile whole in registers, and read and written under predicates::

        for jc, pc: packed_b[nc / NR][kc][NR] = B[pc:pc+kc, jc:jc+nc]
          for ic: packed_a[mc / mr][kc][mr] = A[ic:ic+mc, pc:pc+kc]
            for jr in 0..nc step NR: for ir in 0..mc step mr:
              acc = 0 if pc == 0 else C[ic+ir:, jc+jr:]
              for k in 0..kc step t: acc += packed_a[ir / mr][k:k+t] * packed_b[jr / NR][k:k+t]
              C[ic+ir:, jc+jr:] = acc

    With something done to the sums before they are written, the loop pc is inside: a block of sums is complete in the cache,
    and what follows it is done there. Of a batch, loops over its entries are around that, those over entries that share one B
    inside of jc and pc.

    Raises:
        ScheduleError: The target has no such products, the strategy does not compute `spec`, or a register tile of these sizes
            is no whole number of registers.
    """
    scalable_blocks.require(spec, target, blocking)
    p = blocking
    return decided_blocks(scalable, spec, target, p, ScalableTiles(p.mr, p.nr, p.mc, p.nc, p.kc))
