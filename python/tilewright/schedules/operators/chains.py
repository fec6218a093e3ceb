# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When a chain of two products is computed some rows at a time, and how many."""

from __future__ import annotations

from tilewright.schedules import make, select
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_USED = 3 / 4
"""The part of L2 that weights and rows may take: what else passes through it, such as A, needs the rest."""
_LEAST_TILES = 4
"""Register tiles of rows below which reading all weights again for each block costs more than the hidden tensor's way."""


def rows(first: MatmulSpec, second: MatmulSpec, target: Target) -> int:
    """How many rows of ``second(first(A))`` to compute at a time; 0 for all, one product after the other.

    Row by row, what is between the two products stays in L2, and never goes to memory and back; but each block of rows reads the
    weights of both anew. That is nothing as long as both lie in L2 beside the rows. So the products are fused where the tensor
    between them is larger than L2 by itself, and both weights, with enough rows to be read often, are not.

    A feed-forward block of a transformer (128 x 768 x 3072 x 768) has weights of 19 MB in f32, and is not fused: read once for
    each of several blocks, they would cost more than the hidden tensor, of 1.6 MB, does.
    """
    weights = sum(spec.k * spec.n * spec.b_type.bytes for spec in (first, second))
    hidden = first.m * first.n * first.c_type.bytes
    row = first.k * first.a_type.bytes + first.n * first.c_type.bytes + second.n * second.c_type.bytes
    tile = make.make(first, target).sizes.get("mr", 1)
    count = int((target.l2.bytes * _USED - weights) / row) // tile * tile
    pays = hidden > target.l2.bytes and count >= _LEAST_TILES * tile
    return count if pays and count < first.m else 0


def packs(spec: MatmulSpec, target: Target) -> bool:
    """Whether a product packs its B: in a loop it does so once, before."""
    return select.is_in_panels(make.make(spec, target).name)
