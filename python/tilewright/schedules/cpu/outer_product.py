# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `outer_product`: blocks of C in the tiles of SME's array ZA, to which outer products add."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules.decisions import OuterProducts
from tilewright.schedules.models import outer_blocks
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.steps.decided_blocks import decided_blocks
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def outer_product(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Before: ``C += A * B``. After, with nc, kc, mc of `blocking`::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for ic in 0..M step mc:
              C[ic:ic+mc, jc:jc+nc] += A[ic:ic+mc, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]      (decided)

    and, once it is lowered, with tiles of V x V sums for vectors of V, which only the machine knows, for four tiles::

        for jc, pc: panels_b[nc / 2V][kc][2V] = B[pc:pc+kc, jc:jc+nc]
          for ic: panels_a[mc / 2V][kc][2V] = A[ic:ic+mc, pc:pc+kc]
            for jr in 0..nc step 2V: for ir in 0..mc step 2V:
              za = 0 if pc == 0 else C[ic+ir:, jc+jr:]                                    (rows by predicates)
              for k in 0..kc: za += outer products of panels_a[ir / 2V][k] and panels_b[jr / 2V][k]
              C[ic+ir:, jc+jr:] = za

    With something done to the sums before they are written, the loop pc is inside: a block of sums is complete in the cache,
    and what follows it is done there. Of a batch, loops over its entries are around that, those over
    entries that share one B inside of jc and pc::

        for jc: for ic: sums = 0
            for pc: sums += A[ic:ic+mc, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]                 (decided)
            C[ic:ic+mc, jc:jc+nc] = epilogue(sums)

    Raises:
        ScheduleError: The target has no outer products for these types, or the sizes of a register tile were asked for.
    """
    p = blocking
    own = outer_blocks.register_tile(spec, target)
    if (p.mr, p.nr) != own:
        raise ScheduleError(
            f"a register tile of {p.mr} x {p.nr}",
            where="outer_product",
            expected=f"{own[0]} x {own[1]}: the tiles of ZA are what the machine makes them",
            remedy="Leave mr and nr out",
        )
    return decided_blocks(outer_product, spec, target, p, OuterProducts(p.mc, p.nc, p.kc))
