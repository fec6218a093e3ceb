# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every known target by name, from one table of families."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType

from tilewright.errors import TargetError
from tilewright.targets import amd, arm, nvidia, riscv, vulkan, x86
from tilewright.targets.base import Family, Target
from tilewright.targets.gpu import GpuTarget

FAMILIES: tuple[Family, ...] = (x86.FAMILY, arm.FAMILY, riscv.FAMILY)
"""The families of targets."""

GPUS: tuple[GpuTarget, ...] = (*nvidia.ROWS, *vulkan.ROWS, *amd.ROWS)
"""The GPUs, which are no processors with caches and vectors: what is made for them is apart."""

_ALIASES: Mapping[str, str] = MappingProxyType({"sme": "armv9-a+sme"})
"""Other names of rows."""


def all() -> tuple[Target, ...]:
    """Every row, family by family, general before specific; the host is not among them."""
    return tuple(row for family in FAMILIES for row in family.rows)


def get(name: str) -> Target:
    """The row of that name; `tilewright.targets.resolve` also knows "host".

    Raises:
        TargetError: There is none; the message lists the known ones.
    """
    for target in all():
        if target.name == _ALIASES.get(name, name):
            return target
    if gpu(name) is not None:
        raise TargetError(
            f"{name} is a GPU",
            expected="a processor here",
            remedy=f"tilewright.targets.gpu({name!r}) is its row. "
            "Single products are compiled for GPUs: tw.compile, `tilewright run`, compile, explain, bench static",
        )
    raise TargetError(
        f"unknown target {name!r}",
        expected=f"one of host, {', '.join(target.name for target in (*all(), *GPUS))}",
        remedy="A Target object works too: tilewright.targets.load reads one from a .toml or .py file",
    )


def gpu(name: object) -> GpuTarget | None:
    """The GPU of that name, or that is one; None for everything else."""
    if isinstance(name, GpuTarget):
        return name
    return next((row for row in GPUS if row.name == name), None)


def knowledge(module: str, family: str) -> ModuleType:
    """What a later stage knows of a family, a module of its own, so that no stage has a list of families.

    Args:
        module: The modules' name, with ``{}`` for the family's.
        family: `Target.family`.

    Raises:
        TargetError: There is no such module.
    """
    name = module.format(family)
    if find_spec(name) is None:
        raise TargetError(
            f"no module {name}", where=f"target family {family!r}", expected="one, as the other families have it"
        )
    return import_module(name)


def family_of(architecture: str) -> Family:
    """The family for machines of which ``uname -m``, or a triple, says `architecture`.

    Raises:
        TargetError: No family has rows for such machines.
    """
    for family in FAMILIES:
        if architecture in family.architectures:
            return family
    raise TargetError(
        f"no row for {architecture or 'unknown'} machines",
        where="host",
        expected=f"one of {', '.join(a for family in FAMILIES for a in family.architectures)}",
        remedy="Name a target to compile for another machine",
    )
