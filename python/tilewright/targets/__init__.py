# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The machines that code is made for, as rows of data, and detection of this machine.

The module itself can be called: ``tilewright.targets()`` lists what this machine can do with each.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType

from tilewright.errors import TargetError
from tilewright.targets.base import Cache, Family, Target
from tilewright.targets.files import load
from tilewright.targets.gpu import GpuTarget
from tilewright.targets.host import host as _host
from tilewright.targets.host import require_runnable, runnable
from tilewright.targets.registry import all, get, gpu

__all__ = [
    "Availability",
    "Cache",
    "Family",
    "GpuTarget",
    "Target",
    "all",
    "get",
    "gpu",
    "load",
    "require_runnable",
    "resolve",
    "runnable",
]


def resolve(target: object) -> Target:
    """The target that a user means: "host", the name of a row, or a Target, which is returned as it is.

    Raises:
        TargetError: The name is unknown, it is neither text nor a Target, or "host" has no row.
    """
    if isinstance(target, Target):
        return target
    if not isinstance(target, str):
        raise TargetError(f"target is a {type(target).__name__}", expected="a name or a tilewright.Target")
    return _host() if target == "host" else get(target)


@dataclass(frozen=True, slots=True)
class Availability:
    """A target, and what this machine can do with it.

    Attributes:
        target: The row, or the host.
        missing: The features that this machine lacks; with none it runs the target's code.
    """

    target: Target
    missing: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether this machine runs the target's code."""
        return not self.missing

    def __repr__(self) -> str:
        """The name, and what this machine lacks for it."""
        first, more = self.missing[:1], len(self.missing) - 1
        lacks = f"lacks {first[0]}{f' and {more} more' if more else ''}" if first else "runs here"
        return f"<{self.target.name}: {lacks}>"


def _survey() -> tuple[Availability, ...]:
    """The host, when it has a row, and every row, each with what this machine lacks for it."""
    try:
        known = (_host(), *all())
    except TargetError:
        known = all()
    return tuple(Availability(target, runnable(target)) for target in known)


class _CallableModule(ModuleType):
    """Makes the package callable: ``tilewright.targets()``."""

    def __call__(self) -> tuple[Availability, ...]:
        return _survey()


sys.modules[__name__].__class__ = _CallableModule
