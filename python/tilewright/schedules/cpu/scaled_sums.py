# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scaled_sums`: few rows by weights in few bits, stored row by row: sums of codes, which are scaled once a group."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.decisions import ScaledSums
from tilewright.schedules.models import scaled_blocks, space
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.steps import batch_loops, knobs
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def scaled_sums(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Elements of a group along K have one scale for each column, so their sum may be scaled in place of each: what is left to do
    with a code is to make it a float. Where each is in a register that holds several is not changed: sums stand in the order
    of the words that codes are taken from, until they are scaled.

    Before: ``P = (codes - zeros) * scales``, ``C += A * P`` (decided). After, once it is lowered, with nc, nr, kc of `blocking`::

        for jc in 0..N step nc:
          for g in 0..K step group:
            S = 0
            for pc in g..g+group step kc:
              for jr in jc..jc+nc step nr:
                for k in pc..pc+kc: S[:, jr:jr+nr] += A[:, k] * (codes[k, jr:jr+nr] - zeros[g, jr:jr+nr])
            C[:, jc:jc+nc] += S * scales[g, jc:jc+nc]

    Where codes lie side by side along K, in nr columns that are far apart, a register of sums is of one column, and A has the
    order of the words::

        A2 = A in that order
        for j in 0..N / nr:
          for k in 0..K step block: for columns n = j, j + N/nr, ...:
            T[:, n] += scales[k / group, n] * (A2[:, k:k+block] * (codes[k:k+block, n] - zeros[k / group, n]))
          C[:, n] += sum of T[:, n]

    With more rows, and an nr of whole vectors, words of codes are transposed in registers into a buffer, so that lanes are columns::

        for jr in 0..N step nr:
          for pc in 0..K step kc:
            W = codes[pc:pc+kc, jr:jr+nr] transposed, as words
            for ir in 0..M step mr:
              for g in pc..pc+kc step group:
                C[ir:ir+mr, jr:jr+nr] += scales[g, jr:jr+nr] * (A2[ir:ir+mr, g:g+group] * (W[g:g+group, :] - zeros[g, jr:jr+nr]))

    With ``precision="i8"`` along K, A is rounded first, with scales r; products are of integers, and their sums those of a group::

        Q, r, q = A rounded in groups, their scales, the sums of Q over each group
        ... T[:, n] += scales[k / group, n] * r * (Q[:, k:k+group] * codes[k:k+group, n] - zeros[k / group, n] * q)

    Raises:
        ScheduleError: The strategy does not compute `spec`, or not in such blocks.
    """
    scaled_blocks.require(spec, target, blocking)
    with steps.script() as script:
        steps.record(script.functions, scaled_sums, blocking, target)
        p = blocking
        options = space.alone(scaled_blocks.AXES, spec, target, p)
        knobs.decide(steps.match_product(script.functions, spec), ScaledSums(p.mr, p.nr, p.nc, p.kc), options)
        if spec.fused:
            steps.mark(batch_loops.match_result(script, spec), steps.EPILOGUE)
            steps.vectorize_elements(script.functions, steps.EPILOGUE, spec.m, spec.n, target.lanes(spec.acc_type))
    return script.module
