# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `inner_product`: vectors along K, for a product with one column, which reads A once and does little with it.

Or one with one row, whose B is stored transposed: the same with the parts of A and B swapped.
"""

from __future__ import annotations

from itertools import product

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import batch_loops, steps
from tilewright.schedules.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def inner_product(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Each row has a vector of partial sums, which are added up after the last step over K. The rows and the elements of K
    that fill no tile or vector are tiles of their own.

    Before: ``C += A * B``. After, with mr of `blocking` and L the lanes of a register, or half of them::

        for ir in 0..M step mr:
          partial[mr][L] = 0
          for k in 0..K step L:
            partial += A[ir:ir+mr, k:k+L] * B[k:k+L]
          C[ir:ir+mr] += sum of partial over L

    With one row, and more columns of a B that is stored transposed, jr takes the place of ir, and nr that of mr.
    """
    across = spec.n != 1
    if across and (spec.m != 1 or not spec.b_transposed):
        raise ScheduleError(
            f"{spec} has {spec.n} columns",
            where="strategy inner_product",
            expected="1, so that there is nothing to vectorise but K; or 1 row and a B that is stored transposed",
            remedy="Use strategy unpacked or packed",
        )
    lanes = _lanes(spec, target)
    with steps.script() as script:
        steps.record(script.functions, inner_product, blocking, target)
        batch_loops.take_apart(script, spec)
        tile = steps.match_product(script.root, spec)
        rows = None
        size, extent = (blocking.nr, spec.n) if across else (blocking.mr, spec.m)
        if size < extent:
            tile, rows = steps.tile(tile, [0, size, 0] if across else [size, 0, 0])
        reduction = steps.split_sum(tile, [0, 0, lanes])
        if spec.k % lanes and spec.k > lanes:
            steps.peel(reduction)
        if rows is not None and extent % size:
            steps.peel(rows)
        steps.clean(script.functions)
        element = ir.Type.parse(spec.acc_type.mlir)
        heights = {min(size, extent), extent % size} - {0}
        for height, width in product(heights, {lanes, spec.k % lanes} - {0}):
            sums = ir.RankedTensorType.get([1, height, width] if across else [height, 1, width], element)
            for name in ("linalg.fill", "linalg.generic"):
                steps.vectorize(steps.match(script.functions, name, result_type=sums))
        steps.vectorize(steps.match(script.functions, "linalg.reduce"))
        steps.clean(script.functions)
        steps.keep_partial_sums(script.functions)
        if spec.beta == 0:
            steps.start_from_zero(script.functions)
        steps.drop_unit_dimensions(script.functions)
    return script.module


def _lanes(spec: MatmulSpec, target: Target) -> int:
    """The elements of a step over K: a register's, or half of them where only those divide K.

    Rows then start at any multiple of half a register, and a load of a whole one would touch two lines in every other row:
    1000 x 1 x 1000 takes 54 us with halves and 57 with whole registers (Zen 4).
    """
    whole = target.lanes(spec.acc_type)
    half = whole // 2
    return half if half > 1 and spec.k % whole and spec.k % half == 0 else whole
