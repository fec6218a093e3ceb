# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules attention: one pass over blocks of keys with an online softmax, and the model of its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tilewright.dims import Dim, most
from tilewright.dtypes import dtype
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.schedules import steps
from tilewright.schedules.decisions import OnlineSoftmax
from tilewright.schedules.models import space
from tilewright.schedules.models.online_softmax import (
    TILE,
    can_pair,
    can_tile,
    key_multiple,
    on,
    pair_instruction,
    scratch_bytes,
)
from tilewright.schedules.operators import attention_space
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import knobs
from tilewright.targets.base import Target

_MOST_ROWS = 12
"""Rows of a register tile: each has an address of its own in the loop over the head."""
_SCRATCH = 1 << 19
"""Bytes of scratch memory that blocks may take before they are made smaller: half of what a call is to take at most."""
_FEW_ROWS = 16
"""Queries of one head of keys, up to which each key is multiplied along the head: more fill the lanes of a vector. With eight, and
keys from memory, that is twice as fast on a Zen 4 core."""
_FEW_ROWS_BESIDE_TILES = 5
"""The same where tile registers multiply: on Emerald Rapids they take 1.5 times as long with four queries, 0.7 with 8, 0.4 with 16."""
_KEYS_ALONG_HEAD = (16, 64)
"""Keys of a block then: a multiple of the lanes of every vector."""
_BYTES_ALONG_HEAD = 4096
"""Bytes of keys of a block then, about, of one query: with 4 KiB a Zen 5 core gets up to a third more bandwidth than with 1 or 16 KiB.
Several queries that meet a head of keys want as many keys as there can be, and fewer rescalings. On Zen 5, so and with 4 KiB: four
queries by 2048 x 128 in bf16 1.20 times as fast, four heads of queries a head of keys 1024 x 64 in f32 1.10, in bf16 1.07, 4096 x 128 in
bf16 1.13, in f32 1.00; one query by 1024 x 64 1.01, by 4096 x 64 0.96. Where keys and values are prefetched close to their use (Zen 4),
the core's own prefetchers go on in one of them while the other is multiplied: eight heads of 4096 x 128, four queries each, take 1.2 to
1.35 times as long with 32 or more keys as with 16, in f32 and bf16."""
_BLOCK_KEYS = 96
"""Keys of a block otherwise: so many that the sums' rescaling costs little, so few that the block's scores stay in L1."""
_BLOCK_QUERIES = 256
"""Queries that meet one block of keys, about."""
_SMALL_HEAD, _KEYS_IN_TILES, _COLUMNS_IN_TILES = 64, (128, 256), 16
"""With tile registers: keys of a block for heads up to that size, and for larger ones, and columns. Longer sums want fewer blocks, and
scores of few keys stay in L1. On Emerald Rapids 512 queries by 2048 keys of 32, 64, 96 and 256 elements are so within 2 % of the best of
64 to 256 keys and 8 or 16 columns (of 64 elements by 4096 keys)."""
_SCRATCH_OF_TILES = 1 << 20
"""Bytes of scratch memory then: half of the L2 of the processors that have them."""
_OVERRIDDEN = ("mr", "nr", "kc", "columns")
"""Sizes that can be overridden."""


def plan(spec: AttentionSpec, target: Target, parameters: Mapping[str, int] | None, threads: int) -> Plan:
    """The plan of the schedule below, in sizes of which `parameters` override some, for calls of up to `threads` threads.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
    """
    return Plan(online_softmax.__name__, sizes(spec, target, parameters, threads), online_softmax, threads=threads)


def online_softmax(spec: AttentionSpec, target: Target, sizes: OnlineSoftmax) -> ir.Module:
    """Builds the schedule. The sizes are all that it decides; `codegen.attention` carries it out.

    Before: ``S = Q * K^T``, ``P = softmax(scale * S + mask)``, ``O = P * V`` (decided). After, once it is lowered, for each head
    and block of queries::

        O = 0; m = lowest; l = 0
        for j in 0..keys step kc:
            S = scale * Q * K[j:j+kc]^T + mask[:, j:j+kc]
            a = exp(m - max(m, S)); m = max(m, S); P = exp(S - m)
            l = l * a + sum of P; O = O * a + P * V[j:j+kc]
        O = O / l
    """
    with steps.script() as script:
        options = knobs.NONE if spec.dynamic else space.alone(attention_space.AXES, spec, target, sizes)
        knobs.decide(steps.match(script.functions, "linalg.softmax"), sizes, options)
    return script.module


def sizes(
    spec: AttentionSpec, target: Target, parameters: Mapping[str, int] | None = None, threads: int = 1
) -> OnlineSoftmax:
    """The sizes for `spec`, of which `parameters` override some, for calls of up to `threads` threads.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
    """
    lanes = target.vector_bits // 32
    multiplied = "bf16" if can_pair(spec) and pair_instruction(target) else "f32"
    tiles = can_pair(spec) and can_tile(target)
    few = _FEW_ROWS_BESIDE_TILES if tiles else _FEW_ROWS
    if isinstance(spec.queries, int) and 0 < spec.queries * spec.group <= few and not spec.packed:
        least, greatest = _KEYS_ALONG_HEAD
        keys = _BYTES_ALONG_HEAD // (spec.head * dtype(spec.k).bytes) // least * least
        several = spec.queries * spec.group > 1
        kc = greatest if several and not target.stream_ahead else max(least, min(keys, greatest))
        made = OnlineSoftmax(kc, merged=True, vectorize="head", multiplied=multiplied)
        return _overridden(made, lanes, parameters or {})
    shared = spec.group if isinstance(spec.queries, int) else 1
    merged = shared > 1 and spec.queries < lanes * 4
    rows = most(spec.queries) * (shared if merged else 1)
    if tiles:
        nr = 2 if rows > TILE else 1
        made = _in_tiles(
            spec,
            OnlineSoftmax(1, 2 * TILE, nr, merged=merged, multiplied="bf16", instructions="tiles"),
            rows,
            threads,
        )
        return _overridden(made, lanes, parameters or {})
    nr = max(1, min(4 if target.vector_registers >= 32 else 2, -(-rows // lanes)))
    mr = _rows(target, nr)
    made = OnlineSoftmax(_keys(spec, mr), mr=mr, nr=nr, merged=merged, multiplied=multiplied)
    while _scratch(spec, made, lanes) > _SCRATCH and (made.nr > 1 or made.kc > made.mr):
        # Fewer keys cost less than fewer queries, until little but the sums' rescaling would be left.
        if made.kc > (2 if made.nr > 1 else 1) * made.mr:
            made = replace(made, kc=max(1, made.kc // made.mr // 2) * made.mr)
        else:
            nr = made.nr // 2
            mr = _rows(target, nr)
            made = replace(made, nr=nr, mr=mr, kc=_keys(spec, mr))
    tile = made.nr * lanes
    columns = max(1, min(-(-rows // tile), _BLOCK_QUERIES // tile))
    while columns > 1 and _scratch(spec, replace(made, columns=columns), lanes) > _SCRATCH:
        columns -= 1
    return _overridden(replace(made, columns=columns), lanes, parameters or {})


def _in_tiles(spec: AttentionSpec, made: OnlineSoftmax, rows: int, threads: int) -> OnlineSoftmax:
    """The same with keys of a block, and columns that meet it."""
    keys = _KEYS_IN_TILES[spec.head > _SMALL_HEAD]
    columns = max(1, min(-(-rows // (made.nr * TILE)), _COLUMNS_IN_TILES, _most_columns(spec, made, rows, threads)))
    made = replace(made, kc=min(keys, -(-_most_keys(spec) // made.mr) * made.mr), columns=columns)
    while _scratch(spec, made, TILE) > _SCRATCH_OF_TILES and (made.columns > 1 or made.kc > made.mr or made.nr > 1):
        if made.columns > 1:
            made = replace(made, columns=made.columns - 1)
        elif made.kc > made.mr:
            made = replace(made, kc=made.kc // 2 // made.mr * made.mr)
        else:
            made = replace(made, nr=1)
    return made


def _most_columns(spec: AttentionSpec, made: OnlineSoftmax, rows: int, threads: int) -> int:
    """Columns of which each thread gets a block, where there are enough of them."""
    heads = (spec.kv_heads if made.merged else spec.heads) * prod(spec.batch)
    return max(1, heads * -(-rows // (made.nr * TILE)) // threads)


def _scratch(spec: AttentionSpec, made: OnlineSoftmax, lanes: int) -> int:
    return scratch_bytes(spec, on(made, lanes))


def _rows(target: Target, nr: int) -> int:
    """Rows of a register tile of so many vectors: three quarters of the registers hold sums."""
    return min(_MOST_ROWS, max(2, target.vector_registers * 3 // 4 // nr // 2 * 2))


def _keys(spec: AttentionSpec, mr: int) -> int:
    """Keys of a block of register tiles of `mr` rows."""
    return mr * max(1, min(_BLOCK_KEYS // mr, -(-_most_keys(spec) // mr)))


def _most_keys(spec: AttentionSpec) -> int:
    return max(1, spec.keys.max if isinstance(spec.keys, Dim) else spec.keys)


def _overridden(made: OnlineSoftmax, lanes: int, parameters: Mapping[str, int]) -> OnlineSoftmax:
    for name, value in parameters.items():
        if name not in _OVERRIDDEN:
            raise ScheduleError(
                f"no parameter {name!r}", where="attention", expected=f"one of {', '.join(_OVERRIDDEN)}"
            )
        if not isinstance(value, int) or value < 1:
            raise ScheduleError(f"{name} is {value!r}", where="attention", expected="an int above zero")
    made = replace(made, **parameters)
    if made.kc % (multiple := key_multiple(on(made, lanes))):
        raise ScheduleError(f"kc is {made.kc}", where="attention", expected=f"a multiple of {multiple}")
    return made
