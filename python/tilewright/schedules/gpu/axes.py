# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes that strategies for GPUs could have besides the usual ones: what a printed schedule offers, and what `tilewright tune` ranks.

An axis has the options of one size, whatever the others are. Which sizes go together is said by those of each strategy, which check
themselves, and by the checks of what carries them out (`codegen.gpu.open_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.schedules.gpu import tensor_memory_sizes, warpgroup_sizes
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.schedules.models.space import Axis, Options
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

GpuAxis = Axis[MatmulSpec, GpuTarget, Any]
_BANDS = (4, 8, 16)
"""Rows of tiles that blocks may go through together."""


def _menu(name: str, *options: int, minor: bool = False) -> GpuAxis:
    """An axis whose options are always the same."""
    return Axis((name,), lambda spec, target, sizes: [(each,) for each in options], minor=minor)


def _axis(name: str, options: Callable[[MatmulSpec, Any], Iterable[int]], *, minor: bool = False) -> GpuAxis:
    """An axis whose options depend on the product, and on the sizes that are there."""

    def found(spec: MatmulSpec, target: GpuTarget, sizes: Any) -> Options:  # noqa: ANN401 - a strategy's
        return [(each,) for each in options(spec, sizes)]

    return Axis((name,), found, minor=minor)


def near(sizes: Any, units: Mapping[str, int], check: Callable[[Any], None]) -> dict[str, list[int]]:  # noqa: ANN401 - as above
    """What some sizes may be by name, each while all others stay as they are, as far as `check` does not raise.

    Half, itself and twice, in multiples of a unit; of a flag, both.
    """

    def fits(name: str, size: int) -> bool:
        try:
            check(replace(sizes, **{name: size}))
        except ScheduleError:
            return False
        return True

    def around(size: int, unit: int) -> tuple[int, ...]:
        return (False, True) if isinstance(size, bool) else (size // 2 // unit * unit, size, 2 * size)

    now = {name: around(getattr(sizes, name), unit) for name, unit in units.items()}
    return {name: [each for each in options if fits(name, each)] for name, options in now.items()}


SIMT = (
    _menu("bm", 16, 32, 64, 128),
    _menu("bn", 16, 32, 64, 128),
    _menu("bk", 8, 16, 32, 64),
    _menu("rows", 2, 4, 8),
    _menu("columns", 2, 4, 8),
    _menu("stages", 1, 2, minor=True),
)
"""The axes of `simt`."""
_OF_WARPS = (
    _menu("bm", 32, 64, 128, 256),
    _menu("bn", 32, 64, 128, 256),
    _menu("bk", 16, 32, 64),
    _menu("wm", 16, 32, 64, 128),
    _menu("wn", 16, 32, 64, 128),
)
MMA_SYNC = (*_OF_WARPS, _menu("stages", 2, 3, 4, 5, minor=True))
"""The axes of `mma_sync`."""
MATRIX_CORES = (*_OF_WARPS, _menu("stages", 1, 2, minor=True))
"""The axes of `matrix_cores`."""


def _depths(spec: MatmulSpec, sizes: WarpGroupTile) -> Iterable[int]:
    usual = warpgroup_sizes.usual_depth(spec)
    return usual, 2 * usual


def _streamed(spec: MatmulSpec, sizes: Any) -> Iterable[int]:  # noqa: ANN401 - either strategy's
    """Not of products of a batch, which keep a chip busy anyway."""
    return () if spec.batch_axes else (0, 1)


WARPGROUP = (
    _axis("bm", lambda spec, sizes: (*warpgroup_sizes.TILE_ROWS, *warpgroup_sizes.few_rows(spec))),
    _menu("bn", *warpgroup_sizes.TILE_COLUMNS),
    _axis("bk", _depths),
    _menu("consumers", 1, 2),
    _menu("cluster", 1, 2),
    _menu("beside", 1, 2),
    _menu("split", *warpgroup_sizes.SPLITS),
    _axis("streamed", _streamed),
    _axis("fetched", lambda spec, sizes: (0, 1) if warpgroup_sizes.fetchable(spec) else ()),
    _axis("swapped", lambda spec, sizes: (0, 1) if warpgroup_sizes.few_rows(spec) else ()),
    _menu("pingpong", 0, 1, minor=True),
    _axis("stages", lambda spec, sizes: range(2, warpgroup_sizes.fitted(spec, sizes).stages + 1), minor=True),
    _menu("band", *_BANDS, minor=True),
)
"""The axes of `warpgroup`."""


def _buffered(spec: MatmulSpec, sizes: TensorMemoryTile) -> Iterable[int]:
    return range(2, tensor_memory_sizes.fitted(spec, sizes).stages + 1)


TENSOR_MEMORY = (
    _axis("bm", lambda spec, sizes: (tensor_memory_sizes.LANES, *tensor_memory_sizes.few_rows(spec))),
    _menu("bn", *tensor_memory_sizes.TILE_COLUMNS),
    _menu("cluster", 1, 2),
    _menu("pair", 0, 1),
    _menu("split", *tensor_memory_sizes.SPLITS),
    _axis("streamed", _streamed),
    _axis("swapped", lambda spec, sizes: (0, 1) if tensor_memory_sizes.few_rows(spec) else ()),
    _menu("buffers", 1, 2, minor=True),
    _axis("stages", _buffered, minor=True),
    _menu("band", *_BANDS, minor=True),
)
"""The axes of `tensor_memory`."""
