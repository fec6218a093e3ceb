# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a block's threads multiply: queries by keys, and weights by values, each thread with the same queries in both products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import matrix_cores
from tilewright.codegen.gpu.fma import Fma
from tilewright.codegen.gpu.fragments import Multiplier, Staged
from tilewright.codegen.gpu.mma import MmaSync
from tilewright.codegen.gpu_attention.exchange import Sharers
from tilewright.mlir import ir
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.schedules.gpu.matrix_cores import WaveTile
from tilewright.schedules.gpu.mma_sync import WarpTile
from tilewright.schedules.gpu.simt import ThreadTile
from tilewright.schedules.models import shared_softmax as model
from tilewright.targets.gpu import GpuTarget

_QUAD = 4
"""Neighboring threads of a warp that have elements of one row of a product by mma.sync."""


@dataclass(frozen=True, slots=True)
class Products:
    """The two products of a block.

    Attributes:
        scores: Queries by keys.
        results: Weights by values.
        sharers: The threads that have elements of one row.
    """

    scores: Multiplier
    results: Multiplier
    sharers: Sharers

    @property
    def holds_weights(self) -> bool:
        """Whether weights are multiplied from the registers that the scores are in."""
        return isinstance(self.results, MmaSync)

    def of_held(self, weights: Sequence[Sequence[ir.Value]], values: Staged, sums: ir.Value) -> ir.Value:
        """The sums with weights in registers, by rows, multiplied by values added."""
        assert isinstance(self.results, MmaSync), "others take weights from shared memory"
        return self.results.multiply_held(weights, values, 0, sums)


def of(sizes: SharedSoftmax, chain: Chain, target: GpuTarget) -> Products:
    """Those that a decision makes."""
    head, value_head = model.padded(sizes, chain.head), model.padded(sizes, chain.value_head)
    bm, kc, rows, kind = sizes.bm, sizes.kc, sizes.rows, sizes.multiplied
    if sizes.instructions == "threads":
        lanes = model.across(sizes)
        scores, results = (
            Fma(ThreadTile(bm, bn, bk, rows, bn // lanes), target.least_bits)
            for bn, bk in ((kc, head), (value_head, kc))
        )
        return Products(scores, results, Sharers(lanes, 1))
    if sizes.instructions in model.HOLD_WEIGHTS:
        scores, results = (
            MmaSync(WarpTile(bm, bn, bk, rows, bn), kind, kind) for bn, bk in ((kc, head), (value_head, kc))
        )
        return Products(scores, results, Sharers(_QUAD, 1))
    one = matrix_cores.instructions(target)[kind]
    scores, results = (
        matrix_cores.MatrixCores(WaveTile(bm, bn, bk, rows, bn, target.warp), kind, kind, one)
        for bn, bk in ((kc, head), (value_head, kc))
    )
    if one.swapped:
        return Products(scores, results, Sharers(target.warp // matrix_cores.INSTRUCTION, matrix_cores.INSTRUCTION))
    return Products(scores, results, Sharers(matrix_cores.INSTRUCTION, 1))
