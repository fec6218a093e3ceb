# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The targets of a library, by architecture, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright import targets as rows
from tilewright.emit import shared
from tilewright.errors import SpecError, TargetError
from tilewright.targets import GpuTarget, Target
from tilewright.targets.registry import FAMILIES


def by_architecture(given: Sequence[str | Target]) -> dict[str, list[Target]]:
    """The targets by architecture, the best first: those with more features before those with fewer.

    Raises:
        SpecError: There are none.
        TargetError: One is unknown, or a GPU, or named twice, or there is no linker for it.
    """
    if isinstance(given, str) or not given:
        raise SpecError(f"targets are {given!r}", where="library", expected="a list of targets")
    found: dict[str, list[Target]] = {}
    for each in given:
        if isinstance(each, GpuTarget) or rows.gpu(each) is not None:
            raise TargetError(f"{each} is a GPU", where="library", expected="targets of processors")
        target = replace(rows.resolve(each), emulation=None)
        own = found.setdefault(target.architecture, [])
        if any(target.name == other.name for other in own):
            raise TargetError(f"{target.name} is there twice", where="library", expected="each target once")
        own.append(target)
    for architecture in found:
        shared.linker(architecture)  # its absence is better said before the work than after
    order = {row.name: number for family in FAMILIES for number, row in enumerate(family.rows)}
    for own in found.values():
        own.sort(key=lambda target: (len(target.features), order.get(target.name, 0)), reverse=True)
    return found
