# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of kernels: a name, extents and an element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import DType
from tilewright.nibbles import packed_extent


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """An operand of a call.

    Attributes:
        name: Its name in errors, and that of the argument for "a" and "b".
        shape: Its extents, each an int or a `Dim`; those of the batch come first.
        type: Its element type.
        batch: How many of them are of the batch.
        loops: The axes of the spec's batch along which it has a matrix, or a vector, for each entry.
        axes: What its last extents are, those of a matrix or a vector: "mk", "n"; "-" for what is none of m, n and k.
    """

    name: str
    shape: tuple[Any, ...]
    type: DType
    batch: int = 0
    loops: tuple[int, ...] = ()
    axes: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What each extent is: one of "m", "n" and "k", "b0" for the first axis of the batch; of one entry for all, empty."""
        loops = iter(self.loops)
        return (*("" if size == 1 else f"b{next(loops)}" for size in self.shape[: self.batch]), *self.axes)

    @property
    def stored(self) -> tuple[Any, ...]:
        """Its extents in memory, as calls take it: in bytes along its last axis where elements share one.

        Raises:
            SpecError: That extent is dynamic.
        """
        return self.shape if self.type.packed == 1 else (*self.shape[:-1], packed_extent(self.shape[-1], self.name))

    def looped(self, batch: tuple[Any, ...]) -> tuple[int, ...]:
        """The axes of `shape` but for those of the spec's `batch` that have one entry for all: what its loops go over."""
        missing = len(batch) - self.batch
        return (*(axis - missing for axis in self.loops), *range(self.batch, len(self.shape)))
