# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `streamed`: goes through B once, a few whole rows at a time, for products with few rows and a large B."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.cpu import strips
from tilewright.schedules.cpu.unpacked import register_tiles
from tilewright.schedules.models import space, strip_form
from tilewright.schedules.models.blocking import Blocking, row_gap
from tilewright.schedules.steps import batch_loops, split_k
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_PROLOGUE = "prologue_of_a"
"""Mark of what is done to A."""
_ROWS_AT_ONCE = 32
"""Rows that a copy writes out, one vector each: a loop over fewer would be unrolled by LLVM together with the one inside it."""


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

    What a prologue makes of B is computed in registers, where vectors of it are read; that of A, which is read once for each nr
    columns, is computed first.

    With something done to the sums, it is done in the end, a vector at a time: ``C = epilogue(S)``, of which a C that is added
    to is an operand. Where extents are known only when the kernel is called, or rows are many for the core (`strip_form.takes`), and
    K is not in parts, the loops are those of `strips.strips`, whose S and A wait for one strip at a time.
    """
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        functions = script.functions
        steps.record(functions, streamed, blocking, target)
        spec, p = split_k.take_apart(script, spec, blocking, lanes)
        if blocking.parts == 1 and strip_form.takes(spec, target, p.threads):
            strips.strips(script, spec, target, p)
            return script.module
        batch_loops.take_apart(script, spec)
        sums = spec
        if spec.prologue_a:
            steps.mark(steps.producer(steps.match_product(functions, spec), 0), _PROLOGUE)
        if spec.fused and not spec.dynamic:
            steps.mark(batch_loops.match_result(script, spec), steps.EPILOGUE)
            sums = spec.plain_sums
        staged = not spec.dynamic and spec.m > 1
        if staged:
            product = steps.match_product(functions, spec)
            steps.stage(product, 0, row_gap(target, spec.a_type))
            steps.stage(product, 2, row_gap(target, spec.acc_type, spec.n))
        register_tiles(script, sums, target, p, space.STREAMED)
        if staged:
            copied = (spec.k, *[spec.n] * (0 if spec.fused else 1 + bool(spec.beta)))
            _vectorize_copies(functions, spec.m, copied, lanes)
        if sums is not spec:
            steps.vectorize_elements(functions, steps.EPILOGUE, spec.m, spec.n, lanes)
        if spec.prologue_a:
            steps.vectorize_elements(functions, _PROLOGUE, spec.m, spec.k, lanes)
        if spec.prologue_b:
            steps.compute_reads(functions)
    return script.module


def _vectorize_copies(functions: steps.Handle, rows: int, columns: Sequence[int], width: int) -> None:
    """Copies whole matrices of `rows` rows, of as many columns each as `columns` says in program order, in vectors of `width` elements.

    Few rows are copied at once, and more one by one: the code of a copy does not grow with them.

    Before: ``C = S``. After, with few rows, and with more::

        for j in 0..N step width: C[:, j:j+width] = S[:, j:j+width]

        for i in 0..M: for j in 0..N step width: C[i, j:j+width] = S[i, j:j+width]
    """
    for each, extent in zip(steps.split(steps.match(functions, "linalg.copy"), len(columns)), columns, strict=True):
        copy = each if rows <= _ROWS_AT_ONCE else steps.tile(each, [1, 0])[0]
        if width < extent:
            _, over = steps.tile(copy, [0, width])
            if extent % width:
                steps.peel(over)
    steps.clean(functions)
    steps.vectorize(steps.match(functions, "linalg.copy"))
