# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of a register tile that a user gave and no instruction fits: they give right numbers by slower code, which is said."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.dims import most
from tilewright.errors import ScheduleError, warn_slow
from tilewright.schedules.blocking import lanes_for
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS

_TILED = ("packed", "unpacked", "streamed")
"""Strategies whose register tiles have vectors along N."""


def warn(name: str, spec: MatmulSpec, target: Target, given: Mapping[str, int] | None) -> None:
    """Warns where strategy `name` would compute a tile of the sizes `given` without the target's best instruction."""
    if name not in _TILED:
        return
    units = _units(name, spec, target)
    for size, unit in units.items():
        if given and size in given and given[size] % unit:
            warn_slow(
                f"{size} is {given[size]}: {name} computes {spec.a_type} by {spec.b_type} on {target.name} in steps of {unit}, and"
                f" the rest by slower code; expected a multiple of {unit}. Leave {size} to the model"
            )


def check(name: str, spec: MatmulSpec, target: Target, given: Mapping[str, int] | None) -> None:
    """Refuses a depth of blocks that leaves tile registers no loop over k.

    Raises:
        ScheduleError: `kc` was given, and is no more than one step of a tile instruction.
    """
    if name != "packed" or not given or "kc" not in given:
        return
    dot = target.dots(spec.a_type.name, spec.b_type.name)[0]
    if dot.kind == "amx" and given["kc"] <= dot.step < most(spec.k):
        raise ScheduleError(
            f"kc is {given['kc']}",
            where="schedule parameters",
            expected=f"more than the {dot.step} of one tile instruction on {target.name}",
            remedy="Leave kc to the model",
        )


def _units(name: str, spec: MatmulSpec, target: Target) -> dict[str, int]:
    """What mr and nr should be multiples of."""
    dot = target.dots(spec.a_type.name, spec.b_type.name)[0 if name == "packed" else -1]
    if dot.kind == "amx":
        return {"mr": AMX_ROWS, "nr": AMX_ROWS}
    return {"mr": dot.rows, "nr": target.lanes(spec.acc_type) if name == "packed" else lanes_for(spec, target)}
