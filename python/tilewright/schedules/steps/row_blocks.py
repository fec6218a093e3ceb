# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule for what needs whole rows of C: blocks of rows, each with all of N, that stay in L2."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dims import Dim
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import tensor
from tilewright.schedules import steps
from tilewright.schedules.steps import batch_loops
from tilewright.spec import MatmulSpec

_SUMS = "sums"
"""Mark of what fills the scratch with zeros, where nothing is done to sums before rows are looked at."""
_ROWS = "rows"
"""Mark of the op that makes C of rows."""


def take_apart(script: steps.Script, spec: MatmulSpec, block: Sequence[int] | None) -> steps.Handle:
    """Makes a loop over blocks of rows, and returns the op in it that makes what the rows are looked at for.

    Before: ``S = f(A * B)``, ``C = softmax of S``. After, with the block ``[mc, 0, 0]``::

        for ic in 0..M step mc:
          S[0:mc, :] = f(A[ic:ic+mc, :] * B)      (the op that is returned)
          C[ic:ic+mc, :] = softmax of S

    S is a scratch of mc rows.
    """
    inner = spec.inner
    batch_loops.take_apart(script, spec)
    last = batch_loops.match_result(script, spec)
    if block is not None:
        last, _ = steps.tile_with_producers(last, block[:1])
    steps.mark(last, _ROWS)
    steps.hoist_invariants(script.functions)  # What a prologue makes of B is made for all blocks.
    steps.clean(script.functions)  # What several ops need was made for each of them.
    first = steps.split(steps.match_product(script.functions, spec), spec.products)[0]
    made = steps.consumers(first) if inner.fused else first
    if not inner.fused:
        steps.mark(steps.producer(first, 2), _SUMS)
    if block is not None:
        steps.apply(script.functions, tensor.apply_patterns_tensor_fold_tensor_empty)
        if isinstance(spec.m, Dim) or spec.m % block[0]:  # The scratch of the last block is as large as the others'.
            fill = made if inner.fused else steps.producer(made, 2)
            scratch = steps.producer(fill, 1 + len(inner.chain.operands) + len(inner.scalars))
            tensor.tensor_make_loop_independent(transform.AnyOpType.get(), scratch, 1)
        steps.clean(script.functions)
    return made


def fills(script: steps.Script) -> steps.Handle:
    """What fills the scratch with zeros."""
    return steps.match_marked(script.functions, _SUMS)


def finish(script: steps.Script, lanes: int) -> None:
    """Makes the loop over the rows of a block, as `steps.vectorize_rows` says, when no other op is in between."""
    steps.vectorize_rows(steps.match_marked(script.functions, _ROWS), lanes)
    steps.clean(script.functions)  # What reductions were to start from is in registers.
