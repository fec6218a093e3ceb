# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What sizes of a strategy for GPUs may be: one at a time, for knobs of its schedule, and all together, for those who search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu.strategies import CARRIERS, Sizes
from tilewright.errors import ScheduleError
from tilewright.schedules.gpu import axes, tensor_memory_sizes, warpgroup_sizes
from tilewright.schedules.gpu.axes import GpuAxis
from tilewright.schedules.gpu.matrix_cores import WaveTile
from tilewright.schedules.gpu.mma_sync import WARP, WarpTile
from tilewright.schedules.gpu.simt import ThreadTile
from tilewright.schedules.steps.knobs import Options
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_MOST_SUMS = 128
"""Registers of a thread that sums take at most: the others are for what they are made of."""


@dataclass(frozen=True, slots=True)
class Open:
    """What of a strategy's sizes may vary.

    Attributes:
        axes: What each may be.
        fits: Whether shared memory and registers hold what sizes need.
        fitted: Sizes with as many stages as shared memory has room for, where that follows from the others.
    """

    axes: Sequence[GpuAxis]
    fits: Callable[[MatmulSpec, GpuTarget, Any], bool]
    fitted: Callable[[MatmulSpec, Any], Any] = lambda spec, sizes: sizes


def _slot(spec: MatmulSpec, sizes: ThreadTile | WarpTile | WaveTile, bits: tuple[int, int]) -> int:
    """Bytes of the tiles of a step, of elements of so many bits."""
    of_a = staging.bytes_of((sizes.bm, sizes.bk), bits[0])
    return of_a + spec.products * staging.bytes_of((sizes.bk, sizes.bn), bits[1])


def _simt_fits(spec: MatmulSpec, target: GpuTarget, sizes: ThreadTile) -> bool:
    size = max(spec.acc_type.bits, 32)
    slot = _slot(spec, sizes, (size, size))
    sums = spec.products * sizes.rows * sizes.columns * spec.acc_type.bits // 32
    return sizes.stages * slot <= target.shared_bytes and sums <= _MOST_SUMS // 2


def _warps_fit(spec: MatmulSpec, target: GpuTarget, sizes: WarpTile | WaveTile, warp: int) -> bool:
    types = (spec.a_type, spec.a_stored), (spec.b_type, spec.b_stored)
    a, b = (max(made.bits, stored.bits) for made, stored in types)
    sums = spec.products * sizes.wm * sizes.wn // warp * spec.acc_type.bits // 32
    # Rows of either tile may lie along K or across it, and are a little longer than needed.
    longer = staging.PIECE_BYTES * max(0, sizes.bk - min(sizes.bm, sizes.bn)) * (1 + spec.products)
    return sizes.stages * (_slot(spec, sizes, (a, b)) + longer) <= target.shared_bytes and sums <= _MOST_SUMS


OPEN: Mapping[str, Open] = MappingProxyType(
    {
        "simt": Open(axes.SIMT, _simt_fits),
        "mma_sync": Open(axes.MMA_SYNC, lambda spec, target, sizes: _warps_fit(spec, target, sizes, WARP)),
        "matrix_cores": Open(
            axes.MATRIX_CORES, lambda spec, target, sizes: _warps_fit(spec, target, sizes, sizes.wave)
        ),
        "warpgroup": Open(
            axes.WARPGROUP, lambda spec, target, sizes: warpgroup_sizes.fits(spec, sizes), warpgroup_sizes.fitted
        ),
        "tensor_memory": Open(
            axes.TENSOR_MEMORY,
            lambda spec, target, sizes: tensor_memory_sizes.fits(spec, sizes),
            tensor_memory_sizes.fitted,
        ),
    }
)
"""By strategy."""


def options(name: str, spec: MatmulSpec, target: GpuTarget, sizes: Sizes) -> Options:
    """What each size of a strategy may be with all others as they are, of those that may be several things.

    Larger tiles may need fewer stages, which are a size that may vary too.
    """
    offered = {axis.sizes[0]: [int(each) for (each,) in axis.offered(spec, target, sizes)] for axis in OPEN[name].axes}
    fewest = {"stages": min(offered["stages"])}
    found: dict[str, list[int]] = {}
    for size, several in offered.items():
        changes = ({size: each} if size == "stages" else {**fewest, size: each} for each in several)
        kept = [
            each for each, changed in zip(several, changes, strict=True) if _made(name, spec, target, sizes, changed)
        ]
        if len({*kept, now := int(getattr(sizes, size))}) > 1:
            found[size] = sorted({*kept, now})
    return found


def every(name: str, spec: MatmulSpec, target: GpuTarget, sizes: Sizes) -> Iterator[Any]:
    """All sizes of a strategy that fit together, `sizes` among them; minor ones stay as they are, or follow from the others."""
    major = [axis for axis in OPEN[name].axes if not axis.minor]
    for each in product(*(axis.offered(spec, target, sizes) for axis in major)):
        changed = {axis.sizes[0]: int(option) for axis, (option,) in zip(major, each, strict=True)}
        made = _made(name, spec, target, sizes, changed, fitted=True)
        if made is not None:
            yield made


def _made(
    name: str,
    spec: MatmulSpec,
    target: GpuTarget,
    sizes: Any,  # noqa: ANN401 - a strategy's
    changed: dict[str, int],
    *,
    fitted: bool = False,
) -> Any:  # noqa: ANN401 - as above
    """Sizes with some changed; None where they do not fit together, or not into what a block has."""
    try:
        made = replace(sizes, **changed)
        if fitted:
            made = OPEN[name].fitted(spec, made)
        CARRIERS[name].check(spec, target, made)
    except ScheduleError:
        return None
    return made if OPEN[name].fits(spec, target, made) else None
