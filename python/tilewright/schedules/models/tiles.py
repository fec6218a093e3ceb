# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The block of AMX tiles that a microkernel computes: the model that chooses its rows and columns.

Figures are those of Sapphire Rapids: Intel 64 and IA-32 Architectures Optimization Reference Manual (order number 248966),
"Intel Advanced Matrix Extensions", and uops.info.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.targets.dots import AMX_ROWS

_REGISTERS = 8
CYCLES = 16
"""From one product of two tiles to the next."""
_LATENCY = 52
"""From a product of two tiles to the next one that needs its sums."""
_LOAD_CYCLES = 8
"""To load a tile from L1: two of its sixteen lines a cycle."""


def blocks() -> Iterator[tuple[int, int]]:
    """All blocks of tiles (down, across) that leave registers for an operand that stays and one that passes."""
    for down in range(1, _REGISTERS):
        for across in range(1, _REGISTERS):
            if down * across + min(down, across) + 1 <= _REGISTERS:
                yield down, across


def busy_cycles(down: int, across: int) -> int:
    """Cycles of one step over k in which a block's products, or the latency of a sum, keep the unit busy."""
    return max(down * across * CYCLES, _LATENCY)


def step_cycles(down: int, across: int) -> int:
    """Cycles of one step over k of a block: its products or the latency of a sum, and its loads.

    Loads from L1 hide behind the products. Panels come from L2 in part, where a tile takes twice as long.
    """
    return busy_cycles(down, across) + (down + across) * _LOAD_CYCLES


def block(m: int, n: int, *, nr: int | None = None, products: int = 1) -> tuple[int, int]:
    """The rows and columns of the block with which an m x n result takes the fewest cycles, padded blocks counted whole.

    With `nr`, the best of that many columns. With several `products` of the same rows, each has so many columns.
    """

    def cycles(each: tuple[int, int]) -> int:
        down, across = each
        count = -(-max(m, 1) // (down * AMX_ROWS)) * -(-max(n, 1) // (across // products * AMX_ROWS))
        return count * step_cycles(down, across)

    fitting = (each for each in blocks() if nr in (None, each[1] * AMX_ROWS) and each[1] % products == 0)
    down, across = min(fitting, key=cycles)
    return down * AMX_ROWS, across // products * AMX_ROWS
