# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: XLA on the CPU, through JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands


class Xla(Library):
    """One dot_general, compiled ahead of time; it takes as many threads as its process has cores.

    What is timed includes JAX's dispatch of a compiled function, some tens of microseconds, and the allocation of the result.
    """

    def __init__(self) -> None:
        """Loads JAX."""
        import jax  # type: ignore[import-not-found]

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        self._jax: Any = jax

    @property
    def version(self) -> str:
        """Jaxlib's version, which XLA is part of."""
        import jaxlib  # type: ignore[import-not-found]

        return f"jaxlib {jaxlib.__version__}"

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        jax, kind = self._jax, operands.c.dtype
        axes = (((1,), (0,)), ((), ()))
        product = jax.jit(lambda a, b: jax.lax.dot_general(a, b, axes, preferred_element_type=kind))
        a, b = jax.device_put(operands.a), jax.device_put(operands.b)
        compiled = product.lower(a, b).compile()
        return lambda: compiled(a, b).block_until_ready()

    def fetch(self, returned: object, operands: Operands) -> np.ndarray:
        """See `Library.fetch`."""
        return np.asarray(returned)
