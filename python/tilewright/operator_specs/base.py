# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common base of operators' specs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tilewright import notebook
from tilewright.dims import Dim
from tilewright.operand import OperandSpec


class OperatorSpec(notebook.Spec, ABC):
    """A spec of an operator built on matmul: a frozen dataclass, which compares, hashes and pickles by its fields.

    All of its fields are in the key of the disk cache (`runtime.cache_key`): they are numbers, texts, and dataclasses of such.

    Attributes:
        operator: The operator's name, which is also that of its C entry.
    """

    __slots__ = ()

    operator: ClassVar[str]

    @property
    @abstractmethod
    def operands(self) -> tuple[OperandSpec, ...]:
        """All operands but the result, in the order of the call."""

    @property
    @abstractmethod
    def result(self) -> OperandSpec:
        """The result, as an operand."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Operations: a multiply and an add for each product."""

    @property
    def dynamic(self) -> bool:
        """Whether an extent of an operand is open until a call."""
        return any(isinstance(size, Dim) for each in self.operands for size in each.shape)

    @property
    def is_empty(self) -> bool:
        """Whether an extent of an operand is zero."""
        return any(0 in each.shape for each in (*self.operands, self.result))
