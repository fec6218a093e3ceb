# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `streamed`: goes through B once, a few whole rows at a time, for products with few rows and a large B."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.schedules import batch_loops, steps
from tilewright.schedules.blocking import Blocking, row_gap
from tilewright.schedules.unpacked import register_tiles
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def streamed(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Each row of A meets each element of B once, so that the product takes as long as B takes to arrive. Memory delivers
    most to kc streams along rows, and C, of which a strip waits in the caches meanwhile, has a row a few lines longer than
    needed: a strip of C and kc rows of B then are not all in the same set. Products with one row need no such strip.

    Before: ``C += A * B``. After, with mr, nr, nc, kc of `blocking`::

        S = 0                                                      (with beta 1: C)
        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for jr in jc..jc+nc step nr:
              acc = 0 if pc == 0 else S[:, jr:jr+nr]
              for k in pc..pc+kc:
                acc += A[:, k] * B[k, jr:jr+nr]
              S[:, jr:jr+nr] = acc
        C = S
    """
    p = blocking
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        steps.record(script.functions, streamed, p, target)
        batch_loops.take_apart(script, spec)
        # Sums that something is done to have a buffer of their own already. Of a size that only a call tells there is none.
        staged = not spec.dynamic and spec.m > 1 and not spec.fused
        if staged:
            product = steps.match_product(script.root, spec)
            for operand, element in ((0, spec.a_type), (2, spec.acc_type)):
                steps.stage(product, operand, row_gap(target, element))
        register_tiles(script, spec, target, p)
        if staged:
            copied = (spec.k, *[spec.n] * (1 + spec.beta))
            steps.vectorize_copies(script.functions, copied, lanes)
    return script.module
