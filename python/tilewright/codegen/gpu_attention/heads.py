# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which head a block of threads computes, and the matrices of one head in an operand."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.index import Index, div, rem
from tilewright.build.views import DYNAMIC, subview
from tilewright.codegen.attention.chain import Chain
from tilewright.mlir import ir


def entry_of(chain: Chain, number: Index) -> list[Index]:
    """The indices of the batch's entry of that number."""
    lead: list[Index] = []
    for size in reversed(chain.batch):
        lead.insert(0, number if len(lead) + 1 == len(chain.batch) else rem(number, max(size, 1)))
        number = div(number, max(size, 1))
    return lead


def matrix(operand: ir.Value, place: Sequence[Index], extents: tuple[Index, int]) -> ir.Value:
    """The matrix of one head."""
    source = ir.MemRefType(operand.type)
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [DYNAMIC, 1])
    kind = ir.MemRefType.get([DYNAMIC, extents[1]], source.element_type, layout)
    return subview(kind, operand, [*place, 0, 0], [*[1] * len(place), *extents])
