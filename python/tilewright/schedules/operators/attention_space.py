# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes that attention could have, which a printed schedule offers and a tuner searches, and what they cost, about."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import most
from tilewright.dtypes import dtype
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.schedules.decisions import OnlineSoftmax
from tilewright.schedules.models.online_softmax import TILE, key_multiple, on, scratch_bytes
from tilewright.schedules.models.register_tiles import tile_cycles
from tilewright.schedules.models.sizes import ceil_div
from tilewright.schedules.models.space import Axis, Options
from tilewright.targets.base import Target

_MOST_ROWS, _MOST_VECTORS = 12, 4
"""Of a register tile."""
_MOST_COLUMNS = {"vectors": 8, "tiles": 16}
"""Register tiles that meet one block of keys, by what multiplies."""
_TILE_CYCLES = 16.0
"""Of a product of two tile registers."""
_KEYS = (16, 32, 48, 64, 96, 128, 192, 256)
"""Keys of a block, about: it is whole register tiles."""
_SCRATCH = 1 << 20
"""Bytes of scratch memory that a thread may take."""
_SOFTMAX_CYCLES, _RESCALE_CYCLES, _BLOCK_CYCLES = 10.0, 2.0, 200.0
"""About: of a vector of scores, of a vector of sums whenever a block of keys begins, and of a block besides. They only order candidates."""
_BYTES_PER_CYCLE = 12.0
"""Of keys and values from beyond L2, about."""


def cycles(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> float:
    """What one head costs with some sizes, in cycles of one core, about: it orders candidates, and is no time."""
    lanes, keys = target.vector_bits // 32, most(spec.keys)
    tiling = on(sizes, lanes)
    blocks = ceil_div(keys, sizes.kc)
    if tiling.along_head:
        return blocks * (sizes.kc * (spec.head + spec.value_head) / lanes + _BLOCK_CYCLES)
    tiles = ceil_div(_queries(spec, sizes), tiling.rows)
    unit = 2 * TILE if tiling.in_tiles else tiling.depth
    steps = sizes.kc / sizes.mr * ceil_div(spec.head, unit) + ceil_div(spec.value_head, sizes.mr) * ceil_div(
        sizes.kc, unit
    )
    tile = _TILE_CYCLES * 2 * sizes.nr if tiling.in_tiles else tile_cycles(target, sizes.mr, sizes.nr)
    products = steps * tile
    rest = sizes.nr * (_SOFTMAX_CYCLES * sizes.kc + _RESCALE_CYCLES * spec.value_head) + _BLOCK_CYCLES
    read = keys * (spec.head * dtype(spec.k).bytes + spec.value_head * dtype(spec.v).bytes) / _BYTES_PER_CYCLE
    return tiles * blocks * (products + rest) + ceil_div(tiles, sizes.columns) * read


def _queries(spec: AttentionSpec, sizes: OnlineSoftmax) -> int:
    """Queries that meet one head of keys."""
    return most(spec.queries) * (spec.group if sizes.merged else 1)


def _tiles(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> Options:
    """Register tiles that leave registers for a vector of queries each, and for an element of the keys."""
    if sizes.vectorize == "head":
        return ()
    if sizes.instructions == "tiles":
        return [(2 * TILE, nr) for nr in (1, 2)]
    wide = min(_MOST_VECTORS, ceil_div(_queries(spec, sizes), target.vector_bits // 32))
    return [
        (mr, nr)
        for nr in range(1, max(wide, 1) + 1)
        for mr in range(1, _MOST_ROWS + 1)
        if mr * nr + nr < target.vector_registers and (mr % 2 == 0 or mr == 1)
    ]


def _fitted(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> OnlineSoftmax:
    """With blocks of whole register tiles, and no more of these than there are."""
    unit = key_multiple(on(sizes, target.vector_bits // 32))
    tiles = ceil_div(_queries(spec, sizes), sizes.nr * (target.vector_bits // 32))
    return replace(sizes, kc=max(unit, sizes.kc // unit * unit), columns=max(1, min(sizes.columns, tiles)))


def _keys(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> Options:
    unit = key_multiple(on(sizes, target.vector_bits // 32))
    all_ = ceil_div(most(spec.keys), unit) * unit
    found = {min(max(each // unit, 1) * unit, all_) for each in _KEYS}
    return [(each,) for each in found if _takes(spec, target, replace(sizes, kc=each)) <= _SCRATCH]


def _columns(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> Options:
    if sizes.vectorize == "head":
        return ()
    tiles = ceil_div(_queries(spec, sizes), sizes.nr * (target.vector_bits // 32))
    found = range(1, min(tiles, _MOST_COLUMNS[sizes.instructions]) + 1)
    return [(each,) for each in found if _takes(spec, target, replace(sizes, columns=each)) <= _SCRATCH]


def _takes(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> int:
    return scratch_bytes(spec, on(sizes, target.vector_bits // 32))


AXES: tuple[Axis[AttentionSpec, Target, OnlineSoftmax], ...] = (
    Axis(("mr", "nr"), _tiles, _fitted),
    Axis(("kc",), _keys),
    Axis(("columns",), _columns),
)
"""The axes of `online_softmax`."""
