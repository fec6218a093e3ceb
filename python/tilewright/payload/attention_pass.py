# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Describes the kernel of attention on a GPU as launches see it: operands, result, and the extents of the grid.

Needs no MLIR: kernels from the disk cache are run without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.dtypes import DType
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec


@dataclass(frozen=True, slots=True)
class AttentionPass:
    """The one kernel of a call.

    Attributes:
        whole: The attention.
    """

    whole: AttentionSpec

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """Q, K, V and the mask, of which a kernel takes all axes."""
        return tuple(replace(each, batch=0, loops=()) for each in self.whole.operands)

    @property
    def result(self) -> OperandSpec:
        """The result."""
        return replace(self.whole.result, batch=0, loops=())

    @property
    def batch(self) -> tuple[int, ...]:
        """What comes before the heads: the grid's third axis."""
        return self.whole.batch

    @property
    def transposed(self) -> tuple[bool, ...]:
        """Whether each operand is stored transposed: none is."""
        return (False,) * len(self.whole.operands)

    @property
    def m(self) -> Any:  # noqa: ANN401 - an Extent
        """The queries of a head: tiles of them are the grid's second axis."""
        return self.whole.queries

    def tiles(self, rows: int) -> int:
        """Tiles of so many queries: of sequences that lie end to end, places for as many as there can be."""
        if not self.whole.packed:
            return -(-self.m // rows)
        return self.m // rows + self.whole.sequences if self.whole.sequences else 0

    @property
    def n(self) -> int:
        """The heads: the grid's first axis."""
        return self.whole.heads

    @property
    def a_type(self) -> DType:
        """The type of what matrix instructions multiply, of both operands."""
        return self.whole.q_type

    b_type = a_type
