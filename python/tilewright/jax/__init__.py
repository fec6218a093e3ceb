# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of ours in programs of JAX: under `jit`, `vmap`, `grad` and `shard_map`, and in exported programs.

Importing it imports JAX, which tilewright itself does not need, and lets this process run exported programs that call our kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from tilewright.jax import batching, derivatives  # noqa: F401 - the rules of the primitive
from tilewright.jax.functions import attention, conv2d, linear, matmul
from tilewright.jax.primitive import call
from tilewright.jax.registry import TARGET, registry
from tilewright.payload.spec_tables import Spec

__all__ = ["TARGET", "attention", "call", "conv2d", "kernels", "linear", "load", "matmul"]

registry()


def kernels() -> Mapping[str, Spec]:
    """What the kernels compute that this process compiled for programs of JAX, by their names there.

    ``tw.library(tilewright.jax.kernels(), name="model", out=...)`` makes a library of them, with which an exported program runs
    where nothing is compiled.
    """
    return registry().specs


def load(path: str | PathLike[str]) -> list[str]:
    """Takes the kernels of a library that ``tw.library`` made, and returns their names: programs that call those run them.

    Raises:
        TilewrightError: It is no such library for this machine.
    """
    return registry().load(path)
