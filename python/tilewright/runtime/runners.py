# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides who runs the kernels of a target: this machine, an emulator, a card, a Vulkan device, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tilewright import targets
from tilewright.errors import NotRunnableError, TargetError
from tilewright.runtime import emulators, openmp
from tilewright.runtime.emulator import Emulator
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

Kind = Literal["host", "processes", "fibers", "card", "vulkan", "nobody"]
"""This machine; an emulator of processes of another architecture; our emulator of GPU kernels; a card; a Vulkan device; nobody."""

_GPUS: Mapping[tuple[str, bool], Kind] = MappingProxyType(
    {
        ("nvidia", False): "card",
        ("nvidia", True): "fibers",
        ("amd", False): "nobody",
        ("amd", True): "fibers",
        ("vulkan", False): "vulkan",
    }
)
"""Who runs a GPU's kernels, by family and whether they are emulated."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Who runs the kernels of a target.

    Attributes:
        kind: Who it is.
        emulator: The program, where an emulator of processes runs them.
        refusal: What their calls raise, where nobody does.
    """

    kind: Kind
    emulator: Emulator | None = None
    refusal: NotRunnableError | None = None

    @property
    def name(self) -> str:
        """The program's name; empty where an emulator of processes runs nothing."""
        return "" if self.emulator is None else self.emulator.name

    def sharing(self, target: Target, threads: int) -> Runner:
        """Who runs kernels of so many threads: emulators run those of one.

        Raises:
            TilewrightError: This machine would, and has no OpenMP runtime.
        """
        if threads > 1 and self.kind == "host":
            openmp.openmp_file()  # It is better to learn of its absence before the work than after.
        if threads > 1 and self.kind == "processes":
            return _nobody(
                f"a kernel for {target.name} is emulated here, on one thread",
                "Ask for one thread; kernel.write makes files of more for the machine itself",
            )
        return self

    def computing(self, spec: MatmulSpec, schedule: str) -> Runner:
        """Who runs a product under a strategy: old emulators compute some wrongly."""
        if self.emulator is None:
            return self
        try:
            emulators.check(self.emulator, spec, schedule)
        except NotRunnableError as error:
            return Runner("nobody", refusal=error)
        return self


def of(target: Target | GpuTarget) -> Runner:
    """Who runs the kernels of `target`.

    Raises:
        TargetError: It is to be emulated, and this machine runs it by itself, or no emulator knows such a GPU; or no row has its
            architecture.
    """
    if isinstance(target, GpuTarget):
        kind = _GPUS.get((target.family, target.emulation is not None))
        if kind is None:
            raise TargetError(f"{target.name} is not emulated", where="compile", expected="the target itself")
        if kind == "nobody":
            return _nobody(f"this machine cannot run a kernel for {target.name}", "target.emulated() runs it here")
        return Runner(kind)
    if not targets.runnable(target):
        if target.emulation is not None:
            raise TargetError(
                f"{target.name} is to be emulated, and this machine runs it by itself",
                where="compile",
                expected="a target that this machine cannot run",
            )
        return Runner("host")
    try:
        return Runner("processes", emulators.find(target))
    except NotRunnableError as error:
        if target.architecture not in {each.architecture for each in targets.all()}:
            raise
        return Runner("nobody", refusal=error)


def _nobody(what: str, remedy: str) -> Runner:
    return Runner("nobody", refusal=NotRunnableError(what, where="call", remedy=remedy))
