# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of a launch of a GPU kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """The sizes of a launch.

    Attributes:
        grid: Blocks along x, y and z.
        block: Threads of a block, likewise.
        cluster: Blocks of a cluster, likewise.
        dynamic_shared: Bytes of shared memory beyond the kernel's variables.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0
