# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Describes the second kernel of a GPU call whose epilogue has a row entry (softmax, row sums): what is left to do after the first.

Needs no MLIR: kernels from the disk cache are run without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.operand import OperandSpec
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, slots=True)
class RowPass:
    """The second of two kernels of a call: it takes what the first one, of `whole.inner`, leaves, and gives C.

    Attributes:
        whole: The product.
    """

    whole: MatmulSpec

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """M×N elements that the first kernel leaves, and the operands of the entries after that of rows."""
        inner = self.whole.inner
        return (replace(inner.result, name="sums"), *self.whole.further[len(inner.further) :])

    @property
    def result(self) -> OperandSpec:
        """C."""
        return self.whole.result

    @property
    def batch(self) -> tuple[Any, ...]:
        """The extents of the batch."""
        return self.whole.batch

    @property
    def transposed(self) -> tuple[bool, ...]:
        """Whether each operand is stored transposed: none is."""
        return (False,) * len(self.operands)

    @property
    def m(self) -> int:
        """One: the grid's first axis, which has most blocks, is for rows."""
        return 1

    @property
    def n(self) -> Any:  # noqa: ANN401 - an Extent
        """The rows."""
        return self.whole.m
