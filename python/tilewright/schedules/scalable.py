# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scalable`: cache blocking, with register tiles and panels as wide as the machine's vectors, whatever they are."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.schedules import steps
from tilewright.schedules.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

SIZES = "mark_scalable"
"""The attribute of a product of blocks that `lowering.scalable` expands: its mr, nr, mc, nc and kc."""


def scalable(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    nr of `blocking` are the columns of a register tile for vectors of 128 bits; of a machine with longer ones, which is not known
    while compiling, a tile has as many times more, NR. mc, nc and kc are as in strategy `packed`.

    Before: ``C += A * B``. After::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            packed_b[nc / NR][kc][NR] = B[pc:pc+kc, jc:jc+nc]              (the lowering packs, when NR is known)
            for ic in 0..M step mc:
              packed_a[mc / mr][kc][mr] = A[ic:ic+mc, pc:pc+kc]
              C[ic:ic+mc, jc:jc+nc] += packed_a * packed_b                 (in tiles of mr x NR, under predicates)
    """
    if target.scalable_dot(spec.a_type.name, spec.b_type.name) is None:
        raise ScheduleError(
            f"{target.name} has no products of {spec.a} by {spec.b} on scalable vectors",
            where="strategy scalable",
            expected="a target with SVE, and types that it multiplies",
            remedy="Use strategy packed",
        )
    p = blocking
    with steps.script() as script:
        steps.record(script.functions, scalable, blocking, target)
        tile = steps.match_result(script, spec)
        for sizes, size, extent in (
            ([0, p.nc, 0], p.nc, spec.n),
            ([0, 0, p.kc], p.kc, spec.k),
            ([p.mc, 0, 0], p.mc, spec.m),
        ):
            if size < extent:
                tile, _ = steps.tile_result(tile, sizes, spec)
        product = steps.match_product(script.functions, spec)
        sizes = ir.DenseI64ArrayAttr.get([p.mr, p.nr, min(p.mc, spec.m), min(p.nc, spec.n), min(p.kc, spec.k)])
        transform.annotate(product, SIZES, param=transform.ParamConstantOp(transform.AnyParamType.get(), sizes))
        steps.clean(script.functions)
    return script.module
