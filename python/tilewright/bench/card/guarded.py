# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrices in a card's memory with guard bytes around them and between their rows, which show writes out of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_GUARD = 4096
"""Bytes before a matrix, and behind it."""
_STEP = 16
"""Rows start at multiples of so many bytes."""
_BYTE = 0xFF
"""What is around matrices, and in results before they are written: NaN in every float, and -1 in integers."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A matrix with known bytes around it.

    Attributes:
        memory: All bytes.
        rows: Its rows with what is between them, as bytes.
        matrix: The matrix, of torch.
    """

    memory: Any
    rows: Any
    matrix: Any

    def clear(self) -> None:
        """Resets all bytes to their first values, also those of the matrix."""
        self.memory.fill_(_BYTE)

    @property
    def is_intact(self) -> bool:
        """Whether nothing around the matrix was written. Waits for the card."""
        used = self.matrix.shape[1] * self.matrix.element_size()
        around = (self.memory[:_GUARD], self.memory[-_GUARD:], self.rows[:, used:])
        return all(bool((each == _BYTE).all()) for each in around)


def guarded(torch: Any, rows: int, columns: int, kind: Any, device: str = "cuda", spare: int = 0) -> Guarded:  # noqa: ANN401 - the library, and its type
    """A matrix all of whose bytes are 0xFF.

    Args:
        torch: The library.
        rows: Its rows, which start at multiples of 16 bytes.
        columns: Its columns.
        kind: torch's element type.
        device: Where it is.
        spare: Bytes between rows at least.
    """
    pitch = -(-(columns * kind.itemsize + spare) // _STEP) * _STEP
    memory = torch.full((2 * _GUARD + rows * pitch,), _BYTE, dtype=torch.uint8, device=device)
    held = memory[_GUARD : _GUARD + rows * pitch].view(rows, pitch)
    return Guarded(memory, held, held.view(kind)[:, :columns])
