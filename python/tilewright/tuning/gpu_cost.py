# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What sizes of a strategy for GPUs cost, by a model: it compares sizes of one product, and is no time."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.dims import most
from tilewright.dtypes import dtype
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.conv2d_products import of_launch
from tilewright.schedules.gpu import tensor_memory_sizes, warpgroup_sizes, warpgroup_time
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def product(spec: MatmulSpec | Conv2dSpec) -> MatmulSpec:
    """What is multiplied."""
    return spec if isinstance(spec, MatmulSpec) else of_launch(spec)


def cycles(spec: Any, target: GpuTarget, made: Any) -> float:  # noqa: ANN401 - of GPUs, and a strategy's
    """What some sizes cost: what the model predicts of the strategy, or the bytes that come from the L2 cache, in rounds of blocks."""
    if isinstance(spec, AttentionSpec):
        blocks = prod(spec.batch) * spec.heads * -(-most(spec.queries) // made.bm)
        bytes_ = most(spec.keys) * (spec.head * dtype(spec.k).bytes + spec.value_head * dtype(spec.v).bytes)
        return (
            _rounds(target, blocks)
            * (bytes_ + made.bm * spec.head * dtype(spec.q).bytes)
            / warpgroup_time.L2_BYTES_EACH
        )
    inner = product(spec)
    if isinstance(made, WarpGroupTile) and (known := warpgroup_sizes.predicted(inner, made)) is not None:
        return known
    if isinstance(made, TensorMemoryTile) and (known := tensor_memory_sizes.predicted(inner, made)) is not None:
        return known
    m, n, k, *batch = (most(each) for each in (inner.m, inner.n, inner.k, *inner.batch))
    blocks = -(-m // made.bm) * -(-n // made.bn) * prod(batch)
    deep = -(-k // made.bk) * made.bk
    return (
        _rounds(target, blocks)
        * deep
        * (made.bm * inner.a_stored.bits + made.bn * inner.b_stored.bits)
        / 8
        / warpgroup_time.L2_BYTES_EACH
    )


def _rounds(target: GpuTarget, blocks: int) -> int:
    """How many blocks one multiprocessor has after another; all of them where it is not known how many there are."""
    return -(-blocks // max(target.processors, 1))
