# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of strategy `warpgroup`'s sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.errors import ScheduleError
from tilewright.schedules.block_tile import with_sizes
from tilewright.schedules.warpgroup import ROW_BYTES, ROWS, WarpGroupTile
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_ROWS, _COLUMNS, _FEWER_COLUMNS = 128, 256, 128
"""Of tiles: 64x256 sums of a consumer are as many as fit into its registers."""
_TILE_BYTES = 192 << 10
"""Shared memory for tiles of A and B; the rest of 227 KiB holds boxes of C and barrier objects."""
_MOST_STAGES = 8
_MOST_SPLIT = 8
_LEAST_STEPS = 4
"""Steps over K of a block at least, where several share a tile."""
_INTEGER_COLUMNS, _FREE_COLUMNS = 16, 32
"""Instructions on integers have a multiple of so many columns, when they have more than the latter. Source: the PTX ISA manual, "Register
Fragments and Shared Memory Matrix Layouts" of wgmma."""
_SHAPE = frozenset({"bm", "bn", "consumers", "pingpong", "cluster", "split", "swapped"})


def sizes(spec: MatmulSpec, target: GpuTarget, given: Mapping[str, int]) -> WarpGroupTile:
    """The sizes for a product, with some given by name.

    Raises:
        ScheduleError: A name is unknown, or sizes do not fit together.
    """
    stored = spec.a_stored
    short = stored.bits == 8 and stored.kind == "float"
    # Instructions sum 8-bit floats with fewer bits than f32 has; each step's sums are added to others, which take registers too.
    chosen = {"bk": ROW_BYTES * 8 // stored.bits, "bn": _FEWER_COLUMNS if short else _COLUMNS, "promote": int(short)}
    if not _SHAPE & set(given):
        chosen |= _shape(spec, target, chosen)
    chosen |= given
    rows, columns = chosen.get("bm", _ROWS), chosen["bn"]
    slot = (rows + columns) * chosen["bk"] * stored.bits // 8
    chosen.setdefault("stages", max(2, min(_MOST_STAGES, _TILE_BYTES // slot)) if slot > 0 else 2)
    made = with_sizes(WarpGroupTile, chosen)
    if stored.kind != "float" and made.across > _FREE_COLUMNS and made.across % _INTEGER_COLUMNS:
        raise ScheduleError(
            f"instructions of {made.across} columns on {stored}",
            where="schedule parameters",
            expected=f"a multiple of {_INTEGER_COLUMNS} above {_FREE_COLUMNS}",
        )
    return made


def _shape(spec: MatmulSpec, target: GpuTarget, usual: Mapping[str, int]) -> dict[str, int]:
    """How tiles and blocks are shaped where nothing is given.

    Few rows are columns of instructions (`swapped`), which may be as few as 8. Where there are fewer tiles than multiprocessors, they
    are made smaller, and, where K is long, several blocks share a tile's steps over K (`split`). Where there are more, two blocks
    share the tile of B (`cluster`): a step of a tile of 128x256 16-bit elements takes 0.7 us at the chip's peak and reads 48 KiB,
    of 132 multiprocessors 9 TB/s, which is more than the L2 cache gives; so shared, it is 6 TB/s.
    """
    known = [extent if isinstance(extent, int) else None for extent in (spec.m, spec.n, spec.k)]
    m, n, k = known
    if m is None:
        return {}
    if m <= ROWS:
        granule = 8 if spec.a_stored.kind == "float" else 16
        shape = {"swapped": 1, "bm": max(granule, -(-m // granule) * granule), "bn": _FEWER_COLUMNS}
    else:
        tiles = _tiles(spec, _ROWS, usual["bn"])
        few = tiles is not None and tiles < target.processors
        if not few:
            return {"cluster": 2} if m > _ROWS else {}
        shape = {"bm": _ROWS, "bn": _FEWER_COLUMNS}
    tiles = _tiles(spec, shape["bm"], shape["bn"])
    if n is not None and k is not None and tiles:
        steps = -(-k // usual["bk"])
        split = min(_MOST_SPLIT, target.processors // tiles, steps // _LEAST_STEPS)
        shape["split"] = max(1, split)
    return shape


def _tiles(spec: MatmulSpec, rows: int, columns: int) -> int | None:
    """Tiles of C, of all entries of a batch; None where the spec does not tell."""
    extents = (spec.m, spec.n, *spec.batch)
    if not all(isinstance(each, int) for each in extents):
        return None
    m, n, *batch = (int(each) for each in extents if isinstance(each, int))
    return -(-m // rows) * -(-n // columns) * prod(batch)
