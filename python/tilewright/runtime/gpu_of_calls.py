# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with dynamic extents: which sizes of the strategy a call takes, by the model that static extents are compiled by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

Kernel = TypeVar("Kernel")
_MOST = 1024
"""Shapes of calls that are kept."""


class OfCalls(Generic[Kernel]):
    """The kernels of one spec with other sizes, each compiled when a call first takes it."""

    def __init__(
        self, spec: MatmulSpec, target: GpuTarget, model: str, make: Callable[[Mapping[str, int]], Kernel]
    ) -> None:
        """Compiles nothing yet; `model` is the strategy's `by_call`, and `make` compiles a kernel of it with sizes by name."""
        self._spec, self._target, self._model, self._make = spec, target, model, make
        self._sizes: dict[tuple[object, ...], tuple[tuple[str, int], ...]] = {}
        self._kernels: dict[tuple[tuple[str, int], ...], Kernel] = {}

    def of(self, usual: Kernel, called: MatmulSpec) -> Kernel:
        """The kernel for a call: `usual`, or another one."""
        shape = (called.m, called.n, called.k, *called.batch)
        if shape not in self._sizes:
            model = import_module(f"tilewright.schedules.gpu.{self._model}")
            if len(self._sizes) >= _MOST:
                self._sizes.clear()
            self._sizes[shape] = tuple(model.of_call(self._spec, self._target, called).items())
        sizes = self._sizes[shape]
        if not sizes:
            return usual
        if sizes not in self._kernels:
            self._kernels[sizes] = self._make(dict(sizes))
        return self._kernels[sizes]
