# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that compiled graphs call, by the ops of `tilewright.torch`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.torch import register


@lru_cache(maxsize=4096)
def compiled(spec: Any, threads: int) -> tuple[str, Kernel]:  # noqa: ANN401 - any spec
    """The kernel for a spec, and the name by which ops call it.

    Raises:
        TilewrightError: It cannot be compiled.
    """
    kernel = compile(spec, threads=threads)
    return register(kernel), kernel
