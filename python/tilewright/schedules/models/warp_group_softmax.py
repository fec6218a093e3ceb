# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a `#tilewright.warp_group_softmax` takes: registers, shared memory, and which sizes fit together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from tilewright.dtypes import dtype
from tilewright.errors import ScheduleError
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.models.shared_softmax import Heads as Elements
from tilewright.targets.gpu import GpuTarget

_ROWS, _PER_ROW, _ROW_BYTES = 64, 64, 128
"""Queries of a warp group, and elements and bytes of a row of a box."""
_DEPTH = 16
"""Keys of which instructions have a multiple."""
_MOST_COLUMNS = 256
"""Of instructions."""
_BARRIER_BYTES = 3 << 10
_PER_ROW_OF_PARTS = 8
"""Numbers of a row beside its results, of all threads that share it, where blocks add up parts."""
_SPLITS = (1, 2, 4, 8)
"""Blocks of a cluster, on every chip at most 8."""
REGISTERS: Mapping[int, int] = MappingProxyType({1: 255, 2: 232, 3: 160})
"""Of a thread that multiplies, by groups that do."""
_OTHER_REGISTERS = 32
"""What a thread needs beside its scores, weights and results."""


class Heads(Elements, Protocol):
    """What the sizes depend on: an `AttentionSpec` has it, and the chain that is read from a payload."""

    @property
    def heads(self) -> int:
        """Heads of the queries."""
        ...

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        ...

    @property
    def page(self) -> int | None:
        """Keys of a page; 0 or None where those of an entry lie together."""
        ...

    @property
    def mask(self) -> str | None:
        """Element type of the mask; None without."""
        ...


def columns(heads: Heads) -> int:
    """Columns of the instructions that multiply weights by values: whole boxes."""
    return -(-heads.value_head // _PER_ROW) * _PER_ROW


def held(sizes: WarpGroupSoftmax, heads: Heads) -> int:
    """Registers of a thread for scores in f32, weights in 16 bits, and results in f32."""
    return sizes.kc // 2 + sizes.kc // 4 + columns(heads) // 2


def stores_over_queries(heads: Heads) -> bool:
    """Whether boxes of the result lie where a warp group's queries were: two of 16 rows of each warp, or one where there is no more."""
    boxes = min(2, columns(heads) * dtype(heads.out).bits // (8 * _ROW_BYTES))
    return boxes <= -(-heads.head // _PER_ROW)


def bytes_of(sizes: WarpGroupSoftmax, heads: Heads) -> int:
    """Bytes of shared memory of a block, at most."""
    head = -(-heads.head // _PER_ROW) * _PER_ROW
    rows = _ROWS * sizes.consumers
    tiles = rows * head + sizes.stages * sizes.kc * (head + columns(heads))
    boxes = 0 if stores_over_queries(heads) else rows * 2 * _ROW_BYTES
    parts = 0 if sizes.split == 1 else rows * 4 * (columns(heads) + _PER_ROW_OF_PARTS)
    return 2 * tiles + max(boxes, parts) + _BARRIER_BYTES


def does(heads: Heads, lead: int, target: GpuTarget) -> bool:
    """Whether warp groups of a target can compute it, of operands with so many axes before those of a matrix."""
    elements = {heads.q, heads.k, heads.v}
    fits = len(elements) == 1 and elements <= {"bf16", "f16"} and max(heads.head, columns(heads)) <= _MOST_COLUMNS
    return "wgmma" in target.instructions and fits and lead + 2 <= _MOST_AXES and (heads.page or 0) % _SWIZZLED == 0


_MOST_AXES = 5
"""Of a tensor map."""
_SWIZZLED = 8
"""Rows after which a swizzle's pattern repeats: pages are of multiples, so that they can be copied one after the other."""


def piece(sizes: WarpGroupSoftmax, heads: Heads) -> int:
    """Keys that are copied at once: those of a tile, or of a page, where that is smaller."""
    return min(sizes.kc, heads.page or sizes.kc)


def check(sizes: WarpGroupSoftmax, heads: Heads, lead: int, target: GpuTarget) -> None:
    """Checks sizes for a target.

    Raises:
        ScheduleError: They do not fit together, or not the target.
    """
    where = "warp_group_softmax"
    if not does(heads, lead, target) or sizes.multiplied != heads.q:
        raise ScheduleError(
            f"queries, keys and values of {heads.q}, {heads.k} and {heads.v}, {heads.head} and {heads.value_head} "
            f"elements, multiplied as {sizes.multiplied} on {target.name}",
            where=where,
            expected=f"one type of 16 bits, at most {_MOST_COLUMNS} elements and two axes of a batch, and wgmma",
        )
    if (
        sizes.bm * sizes.places % _ROWS
        or sizes.consumers not in REGISTERS
        or sizes.kc % _DEPTH
        or not 0 < sizes.kc <= _MOST_COLUMNS
        or min(sizes.bm, sizes.stages) < 1
    ):
        given = f"bm={sizes.bm}, merged={sizes.merged}, kc={sizes.kc}, stages={sizes.stages}"
        expected = f"bm x merged (as a power of two) of 64, 128 or 192, kc a multiple of {_DEPTH}, at most {_MOST_COLUMNS}, and a stage"
        raise ScheduleError(given, where=where, expected=expected)
    group = heads.heads // heads.kv_heads
    if group % sizes.merged or _ROWS % sizes.places or (sizes.merged > 1 and heads.mask) or sizes.split not in _SPLITS:
        expected = (
            f"a divisor of the {group} heads that share keys, at most {_ROWS}, without a mask; 1, 2, 4 or 8 parts"
        )
        raise ScheduleError(f"merged={sizes.merged}, split={sizes.split}", where=where, expected=expected)
    if heads.page and (sizes.kc % piece(sizes, heads) or heads.page % piece(sizes, heads)):
        raise ScheduleError(
            f"kc={sizes.kc}", where=where, expected=f"a multiple or a divisor of a page's {heads.page} keys"
        )
    if sizes.pingpong and (sizes.consumers < 2 or not sizes.overlap):
        raise ScheduleError("pingpong", where=where, expected="overlap, and bm of at least 128")
    room = REGISTERS[sizes.consumers] - _OTHER_REGISTERS
    if held(sizes, heads) > room:
        raise ScheduleError(
            f"scores, weights and results take {held(sizes, heads)} registers of a thread",
            where=where,
            expected=f"at most {room} with bm={sizes.bm}",
            remedy="Make kc or bm smaller",
        )
    if bytes_of(sizes, heads) > target.shared_bytes:
        raise ScheduleError(
            f"tiles take {bytes_of(sizes, heads)} bytes of shared memory",
            where=where,
            expected=f"at most the {target.shared_bytes} of {target.name}",
            remedy="Make kc or stages smaller",
        )
