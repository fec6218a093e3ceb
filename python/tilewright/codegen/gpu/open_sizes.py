# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What sizes of a strategy for GPUs may be: one at a time, for knobs of its schedule, and all together, for those who search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tilewright.codegen.gpu.strategies import Carrier, Sizes
from tilewright.errors import ScheduleError
from tilewright.schedules.steps.knobs import Options
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def options(row: Carrier, spec: MatmulSpec, target: GpuTarget, sizes: Sizes) -> Options:
    """What each size of a strategy may be with all others as they are, of those that may be several things.

    Larger tiles may need fewer stages, which are a size that may vary too.
    """
    offered = {axis.sizes[0]: [int(each) for (each,) in axis.offered(spec, target, sizes)] for axis in row.axes}
    fewest = {"stages": min(offered["stages"])}
    found: dict[str, list[int]] = {}
    for name, several in offered.items():
        changes = ({name: each} if name == "stages" else {**fewest, name: each} for each in several)
        kept = [each for each, changed in zip(several, changes, strict=True) if _made(row, spec, target, sizes, changed)]
        if len({*kept, now := int(getattr(sizes, name))}) > 1:
            found[name] = sorted({*kept, now})
    return found


def every(row: Carrier, spec: MatmulSpec, target: GpuTarget, sizes: Sizes) -> Iterator[Any]:
    """All sizes of a strategy that fit together, `sizes` among them; minor ones stay as they are, or follow from the others."""
    major = [axis for axis in row.axes if not axis.minor]
    for each in product(*(axis.offered(spec, target, sizes) for axis in major)):
        changed = {axis.sizes[0]: int(size) for axis, (size,) in zip(major, each, strict=True)}
        made = _made(row, spec, target, sizes, changed, fitted=True)
        if made is not None:
            yield made


def _made(
    row: Carrier, spec: MatmulSpec, target: GpuTarget, sizes: Any, changed: dict[str, int], *, fitted: bool = False
) -> Any:  # noqa: ANN401 - a strategy's sizes
    """Sizes with some changed; None where they do not fit together, or not into what a block has."""
    try:
        made = replace(sizes, **changed)
        if fitted:
            made = row.fitted(spec, made)
        row.check(spec, target, made)
    except ScheduleError:
        return None
    return made if row.fits(spec, target, made) else None
