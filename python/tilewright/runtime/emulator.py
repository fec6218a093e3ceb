# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An emulator: a program that runs code of another architecture."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Emulator:
    """A program that runs code of another architecture.

    Attributes:
        path: Where it is.
        options: Its options, before the program that it runs.
        exact: Whether masked loads and stores leave alone what the mask leaves out. QEMU 7.2 reads all that AVX2's do,
            so that pages beside an operand must stay accessible.
    """

    path: str
    options: tuple[str, ...]
    exact: bool = True

    @property
    def name(self) -> str:
        """Its file's name."""
        return os.path.basename(self.path)
