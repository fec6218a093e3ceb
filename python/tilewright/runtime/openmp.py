# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The OpenMP runtime that kernels of several threads use."""

from __future__ import annotations

from tilewright import _runtime
from tilewright.errors import TilewrightError


def openmp_file() -> str:
    """The file of the OpenMP runtime for kernels of several threads, which this loads.

    Raises:
        TilewrightError: There is none.
    """
    file = _runtime.openmp_file()
    if not file:
        raise TilewrightError(
            "no OpenMP runtime",
            expected="libomp of LLVM, for more than one thread",
            remedy="Install libomp-22-dev and build again, or ask for one thread",
        )
    return file
