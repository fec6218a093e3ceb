# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of strategy `tensor_memory`'s sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewright.schedules.gpu.tensor_memory import LANES, TensorMemoryTile
from tilewright.schedules.gpu.tensor_memory_time import cycles
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, SUM_BYTES, atom, check_atoms
from tilewright.schedules.gpu.warpgroup_sizes import check_streamed, nearly_fastest, of_menu, open_shape, work_of
from tilewright.schedules.gpu.warpgroup_time import Work
from tilewright.schedules.steps.block_tile import with_sizes
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_COLUMNS = 256
"""Of tiles: 128x256 sums are half of tensor memory, so that the other half holds those of the next tile."""
TILE_COLUMNS, SPLITS = (128, 192, 256), (1, 2, 4, 8)
"""Of tiles, and of blocks that share one, that are compared: so many as parts of the chip have a multiple of, or nearly."""
_LEAST_STEPS = 4
"""Steps over K of a block at least, where several share a tile."""
_FEW_ROWS = 64
"""Up to so many rows of C are columns of instructions where the other extents are not known."""
_MOST_SWAPPED = 256
"""Rows of C that may be columns of instructions."""
_GRANULE = 16
_TILE_BYTES = 192 << 10
"""Shared memory for tiles of A and B; the rest of 227 KiB holds boxes of C and barrier objects."""
_MOST_STAGES = 8
_MENU: tuple[Mapping[str, int], ...] = (
    {"swapped": 1, "bm": 16, "bn": 128},
    {"swapped": 1, "bm": 16, "bn": 128, "split": 4},
    {"swapped": 1, "bm": 64, "bn": 128},
    {"swapped": 1, "bm": 64, "bn": 128, "split": 4},
    {"bn": 128},
    {"bn": 128, "split": 4},
    {"bn": 128, "cluster": 2, "pair": 1},
    {"bn": 256, "cluster": 2, "pair": 1},
    {"bn": 256, "cluster": 2, "pair": 1, "streamed": 1},
)
"""What calls of a kernel with dynamic extents choose from: few rows, few tiles, parts of K, pairs, tiles that fill the chip in part.
Each is compiled when it is first chosen."""
_SHAPE = frozenset({"bm", "bn", "swapped", "cluster", "pair", "split", "streamed"})


def sizes(spec: MatmulSpec, target: GpuTarget, given: Mapping[str, int]) -> TensorMemoryTile:
    """The sizes for a product, with some given by name.

    Raises:
        ScheduleError: A name is unknown, or sizes do not fit together.
    """
    bits = spec.a_stored.bits
    chosen: dict[str, int] = {"bk": ROW_BYTES * 8 // bits}
    if not _SHAPE & set(given):
        chosen |= _shape(spec, chosen)
    chosen |= given
    made = with_sizes(TensorMemoryTile, chosen)
    if "stages" not in chosen:
        made = fitted(spec, made)
    check(spec, target, made)
    return made


def fitted(spec: MatmulSpec, made: TensorMemoryTile) -> TensorMemoryTile:
    """Sizes with as many stages as shared memory has room for."""
    return replace(made, stages=_stages(_slot(spec, made.bm, made.held_columns, made.bk)))


def fits(spec: MatmulSpec, made: TensorMemoryTile) -> bool:
    """Whether shared memory holds the tiles, and sums of parts of K where these were."""
    slots = made.stages * _slot(spec, made.bm, made.held_columns, made.bk)
    return slots <= _TILE_BYTES and (made.split == 1 or made.bm * made.bn * SUM_BYTES <= slots)


def predicted(spec: MatmulSpec, made: TensorMemoryTile) -> float | None:
    """The model's prediction of the cycles of a product with some sizes; None where not all extents are known."""
    work = work_of(spec)
    return None if work is None else cycles(work, made)


def few_rows(spec: MatmulSpec) -> list[int]:
    """Rows of tiles whose rows of C are columns of instructions; none where there are more, or it is not known how many."""
    return [_few(spec, spec.m)] if isinstance(spec.m, int) and 0 < spec.m <= _MOST_SWAPPED else []


def check(spec: MatmulSpec, target: GpuTarget, made: TensorMemoryTile) -> None:
    """Raises `ScheduleError` where an operand is no whole number of swizzle patterns, or blocks divide steps of a batch."""
    check_atoms(spec, made.bm, made.bn, made.bn // made.held_columns)
    check_streamed(spec, made)


def of_call(spec: MatmulSpec, target: GpuTarget, called: MatmulSpec) -> Mapping[str, int]:
    """Sizes by name for a call of a kernel with dynamic extents, as `warpgroup_sizes.of_call` has them."""
    return of_menu(_MENU, work_of(called), lambda given: sizes(spec, target, given), cycles)


def _shape(spec: MatmulSpec, usual: Mapping[str, int]) -> dict[str, int]:
    """How tiles and blocks are shaped where nothing is given.

    Of all candidates the one is taken that is predicted to be fastest (`tensor_memory_time`); of those that are nearly as fast, one
    that leaves no sums in memory, the one of the fewest parts of K, and then the one that moves the fewest bytes, which also take power.
    """
    work = work_of(spec)
    if work is None:
        return open_shape(spec, _FEW_ROWS, lambda m: {"bm": _few(spec, m), "bn": LANES}, LANES)
    best = nearly_fastest(work, _candidates(spec, work, usual), cycles, lambda each: (each.streamed, each.split))
    return {name: int(getattr(best, name)) for name in sorted(_SHAPE)}


def _candidates(spec: MatmulSpec, work: Work, usual: Mapping[str, int]) -> Iterator[TensorMemoryTile]:
    """Sizes that are compared: blocks that share tiles of B, parts of K, rows of C as columns of instructions."""
    bk = usual["bk"]
    tiles = [(LANES, bn, False) for bn in TILE_COLUMNS]
    tiles += [(bm, LANES, True) for bm in few_rows(spec)]
    most_split = -(-work.k // bk) // _LEAST_STEPS
    for bm, bn, swapped in tiles:
        slot = _slot(spec, bm, bn, bk)
        shape: Any = {"bm": bm, "bn": bn, "bk": bk, "swapped": swapped, "stages": _stages(slot)}
        for split in SPLITS:
            if split == 1 or (split <= most_split and bm * bn * SUM_BYTES <= shape["stages"] * slot):
                yield TensorMemoryTile(**shape, split=split)
        shared: list[dict[str, Any]] = [{}]
        if work.m > bm and not swapped:
            shared.append({"cluster": 2})
            if not (bn // 2) % (_GRANULE if spec.transposed[1] else atom(spec)):
                shared.append({"cluster": 2, "pair": True, "stages": _stages(_slot(spec, bm, bn // 2, bk))})
        for each in shared:
            if each:
                yield TensorMemoryTile(**shape | each)
            if work.batch == 1:
                yield TensorMemoryTile(**shape | each, streamed=True)


def _few(spec: MatmulSpec, m: int) -> int:
    """So many rows as columns of instructions: a multiple of 16, or of a swizzle pattern where A is transposed."""
    granule = atom(spec) if spec.transposed[0] else _GRANULE
    return max(granule, -(-m // granule) * granule)


def _slot(spec: MatmulSpec, rows: int, columns: int, depth: int) -> int:
    """Bytes of the tiles of a step."""
    return (rows + columns) * depth * spec.a_stored.bits // 8


def _stages(slot: int) -> int:
    """How many slots of so many bytes there is memory for."""
    return max(2, min(_MOST_STAGES, _TILE_BYTES // slot)) if slot > 0 else 2
