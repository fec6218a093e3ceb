# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of strategy `tensor_memory`'s sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.schedules.gpu.tensor_memory import LANES, TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, atom, check_atoms
from tilewright.schedules.steps.block_tile import with_sizes
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_COLUMNS, _FEWER_COLUMNS = 256, 128
"""Of tiles: 128x256 sums are half of tensor memory, so that the other half holds those of the next tile."""
_FEW_ROWS = 64
"""Up to so many rows of C are columns of instructions."""
_GRANULE = 16
_TILE_BYTES = 192 << 10
"""Shared memory for tiles of A and B; the rest of 227 KiB holds boxes of C and barrier objects."""
_MOST_STAGES = 8
_SHAPE = frozenset({"bm", "bn", "swapped", "cluster"})


def sizes(spec: MatmulSpec, target: GpuTarget, given: Mapping[str, int]) -> TensorMemoryTile:
    """The sizes for a product, with some given by name.

    Raises:
        ScheduleError: A name is unknown, or sizes do not fit together.
    """
    bits = spec.a_stored.bits
    chosen: dict[str, int] = {"bk": ROW_BYTES * 8 // bits}
    if not _SHAPE & set(given):
        chosen |= _shape(spec, target)
    chosen |= given
    rows, columns = chosen.get("bm", LANES), chosen.get("bn", _COLUMNS)
    slot = (rows + columns) * chosen["bk"] * bits // 8
    chosen.setdefault("stages", max(2, min(_MOST_STAGES, _TILE_BYTES // slot)) if slot > 0 else 2)
    made = with_sizes(TensorMemoryTile, chosen)
    check(spec, target, made)
    return made


def check(spec: MatmulSpec, target: GpuTarget, made: TensorMemoryTile) -> None:
    """Raises `ScheduleError` where an operand is no whole number of swizzle patterns."""
    check_atoms(spec, made.bm, made.bn)


def _shape(spec: MatmulSpec, target: GpuTarget) -> dict[str, int]:
    """How tiles are shaped where nothing is given.

    Few rows are columns of instructions (`swapped`), which may be as few as 16 (a whole
    swizzle pattern where A is transposed). Where there are fewer tiles than multiprocessors, they
    are made smaller. Where there are more, two blocks share the tile of B (`cluster`), which then comes from the L2 cache once for both.
    """
    extents = (spec.m, spec.n, *spec.batch)
    if not isinstance(spec.m, int):
        return {}
    if spec.m <= _FEW_ROWS:
        granule = atom(spec) if spec.transposed[0] else _GRANULE
        return {"swapped": 1, "bm": max(granule, -(-spec.m // granule) * granule), "bn": LANES}
    if all(isinstance(each, int) for each in extents):
        m, n, *batch = (int(each) for each in extents if isinstance(each, int))
        if -(-m // LANES) * -(-n // _COLUMNS) * prod(batch) < target.processors:
            return {"bn": _FEWER_COLUMNS}
    return {"cluster": 2} if spec.m > LANES else {}
