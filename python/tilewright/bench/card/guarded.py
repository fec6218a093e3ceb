# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrices in a card's memory with guard bytes around them and between their rows, which show writes out of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GUARD = 4096
"""Bytes before a matrix, and behind it."""
_STEP = 16
"""Rows start at multiples of so many bytes."""
BYTE = 0xFF
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
        self.memory.fill_(BYTE)

    @property
    def is_intact(self) -> bool:
        """Whether nothing around the matrix was written. Waits for the card."""
        used = self.matrix.shape[1] * self.matrix.element_size()
        around = (self.memory[:GUARD], self.memory[-GUARD:], self.rows[:, used:])
        return all(bool((each == BYTE).all()) for each in around)


def pitch_of(used: int, spare: int = 0) -> int:
    """Bytes from a row of so many bytes to the next, with so many between them at least."""
    return -(-(used + spare) // _STEP) * _STEP


def guarded(torch: Any, rows: int, columns: int, kind: Any, device: str = "cuda") -> Guarded:  # noqa: ANN401 - the library, and its type
    """A matrix all of whose bytes are 0xFF.

    Args:
        torch: The library.
        rows: Its rows, which start at multiples of 16 bytes.
        columns: Its columns.
        kind: torch's element type.
        device: Where it is.
    """
    pitch = pitch_of(columns * kind.itemsize)
    memory = torch.full((2 * GUARD + rows * pitch,), BYTE, dtype=torch.uint8, device=device)
    held = memory[GUARD : GUARD + rows * pitch].view(rows, pitch)
    return Guarded(memory, held, held.view(kind)[:, :columns])
