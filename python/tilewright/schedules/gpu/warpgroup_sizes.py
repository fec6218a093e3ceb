# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of strategy `warpgroup`'s sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, prod
from types import MappingProxyType
from typing import Any, TypeVar

from tilewright.errors import ScheduleError
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import (
    ROW_BYTES,
    ROWS,
    SUM_BYTES,
    WarpGroupTile,
    added_bits,
    atom,
    check_atoms,
    makes_weights,
    row_of,
    sums_fit,
)
from tilewright.schedules.gpu.warpgroup_time import Work, cycles, least_cycles, traffic
from tilewright.schedules.steps.block_tile import with_sizes
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

Made = TypeVar("Made", WarpGroupTile, TensorMemoryTile)

_ROWS, _COLUMNS, _FEWER_COLUMNS = 128, 256, 128
"""Of tiles: 64x256 sums of a consumer are as many as fit into its registers."""
_SHARED_BYTES, _BOX_BYTES = 226 << 10, 16 << 10
"""Shared memory of a block without what barrier objects take; and, of it, boxes of C of a consumer at most."""
_MOST_STAGES = 8
_FETCHED_STAGES = 3
"""So many at least where what is added to C takes shared memory that slots would have."""
_MANY_STAGES = 6
"""So many fit where small tiles are twice as deep: fewer steps, each of which takes its time whatever it moves."""
SPLITS = (1, 2, 4, 8)
"""Blocks of a cluster that have the same tile: so many as parts of the chip have a multiple of, or nearly."""
_LEAST_STEPS = 4
"""Steps over K of a block at least, where several share a tile."""
_INTEGER_COLUMNS, _FREE_COLUMNS = 16, 32
"""Instructions on integers have a multiple of so many columns, when they have more than the latter. Source: the PTX ISA manual, "Register
Fragments and Shared Memory Matrix Layouts" of wgmma."""
TILE_ROWS, TILE_COLUMNS = (64, 128, 256), (64, 128, 192, 256)
"""Of the tiles that are compared."""
_MOST_SWAPPED, _SWAPPED_COLUMNS = 256, (64, 128, 256)
"""Rows of C that may be columns of instructions, and what is compared then."""
_PAIR = 2
"""Blocks of a cluster for which a part of the chip has room nearly everywhere, and which wait for one another the least."""
_NEARLY = 1.03
"""Predictions closer than this say nothing."""
_MENU: tuple[Mapping[str, int], ...] = (
    {"swapped": 1, "bm": 16, "bn": 128},
    {"swapped": 1, "bm": 16, "bn": 128, "split": 4},
    {"swapped": 1, "bm": 64, "bn": 128},
    {"swapped": 1, "bm": 64, "bn": 128, "split": 4},
    {"bm": 128, "bn": 128},
    {"bm": 128, "bn": 128, "split": 4},
    {"bm": 128, "bn": 128, "cluster": 2},
    {"bm": 128, "bn": 256, "cluster": 2},
    {"bm": 128, "bn": 256, "streamed": 1},
)
"""What calls of a kernel with dynamic extents choose from: few rows, few tiles, parts of K, many tiles, tiles that fill the
chip in part. Each is compiled when it is first chosen."""
_MOST_HELD = 128
"""Rows of a tile at most where weights are made in registers: with the weights of a step, their sums leave enough of these."""
_PAIR_INSTRUCTIONS: Mapping[tuple[int, bool], int] = MappingProxyType(
    {(4, True): 7, (4, False): 9, (8, True): 6, (8, False): 6}
)
"""Instructions that make a register of two codes of so many bits, counted in machine code: with scales of the type that is multiplied, or
of others."""
_INTEGERS = frozenset({"i8", "u8"})
_SHAPE = frozenset(
    {"bm", "bn", "consumers", "pingpong", "cluster", "beside", "split", "streamed", "fetched", "swapped"}
)


def sizes(spec: MatmulSpec, target: GpuTarget, given: Mapping[str, int]) -> WarpGroupTile:
    """The sizes for a product, with some given by name.

    Raises:
        ScheduleError: A name is unknown, or sizes do not fit together.
    """
    stored = spec.a_stored
    short = stored.bits == 8 and stored.kind == "float"
    # Instructions sum 8-bit floats with fewer bits than f32 has; each step's sums are added to others, which take registers too.
    chosen = {"bk": usual_depth(spec), "bn": _FEWER_COLUMNS if short else _COLUMNS, "promote": int(short)}
    if makes_weights(spec):
        chosen |= {"bn": _FEWER_COLUMNS, "bm": _MOST_HELD, "swapped": 1}
    chosen["products"] = spec.products
    chosen["bn"] = min(chosen["bn"], _COLUMNS // spec.products // ROWS * ROWS)  # As many sums of a consumer.
    if not _SHAPE & set(given):
        chosen |= _shape(spec, target, chosen)
    chosen |= given
    made = with_sizes(WarpGroupTile, chosen)
    if "stages" not in chosen:
        made = fitted(spec, made)
    check(spec, target, made)
    return made


def usual_depth(spec: MatmulSpec) -> int:
    """The depth of tiles: elements of a row of the widest swizzle pattern."""
    return row_of(spec.b_stored if makes_weights(spec) else spec.a_stored)


def fitted(spec: MatmulSpec, made: WarpGroupTile) -> WarpGroupTile:
    """Sizes with as many stages as shared memory has room for."""
    return replace(made, stages=_stages(_slot(spec, made.bm, made.bn, made.bk), _boxes(spec, made)))


def fits(spec: MatmulSpec, made: WarpGroupTile) -> bool:
    """Whether shared memory and registers hold what sizes need, as they do that of all sizes that the model compares."""
    slots = made.stages * _slot(spec, made.bm, made.bn, made.bk)
    held = slots + _boxes(spec, made) <= _SHARED_BYTES
    summed = made.split == 1 or _parts_fit(made.products, made.bm, made.bn, slots)
    spills = bool(made.promote) and _spills(made.summed, _bytes_of_c(spec))
    return held and summed and not spills and (not made.streamed or _streams(spec, made.consumers))


def _parts_fit(products: int, bm: int, bn: int, slots: int) -> bool:
    """Whether sums of parts of K fit into shared memory of so many bytes, where tiles of A and B were."""
    return products * bm * bn * SUM_BYTES <= slots


def _spills(groups: int, bytes_out: int) -> bool:
    """Whether addresses of promoted sums do not fit into registers: of as many as these allow, with wide results."""
    return groups > 1 and bytes_out >= SUM_BYTES


def _streams(spec: MatmulSpec, consumers: int) -> bool:
    """Whether registers are left to divide the steps of last tiles.

    A single consumer has none, nor have those of two products beside a group that gathers, which needs more of them.
    """
    return consumers > 1 and not (spec.gathers and spec.products > 1)


def check(spec: MatmulSpec, target: GpuTarget, made: WarpGroupTile) -> None:
    """Raises `ScheduleError` unless there are instructions for sizes."""
    stored = spec.a_stored
    if made.products != spec.products:
        raise ScheduleError(
            f"products={made.products}", where="schedule parameters", expected=f"{spec.products}, as the spec says"
        )
    if stored.kind != "float" and made.across > _FREE_COLUMNS and made.across % _INTEGER_COLUMNS:
        raise ScheduleError(
            f"instructions of {made.across} columns on {stored}",
            where="schedule parameters",
            expected=f"a multiple of {_INTEGER_COLUMNS} above {_FREE_COLUMNS}",
        )
    check_streamed(spec, made)
    if made.beside > 1 and spec.gathers:
        raise ScheduleError(
            "beside=2, and rows of A are gathered",
            where="schedule parameters",
            expected="beside=1: each block copies these rows itself",
        )
    if made.fetched and not fetchable(spec):
        raise ScheduleError(
            "fetched=1, and nothing is added to C that has elements of as many bits",
            where="schedule parameters",
            expected="fetched=0; or beta, or an operand of M x N elements such as a residual",
        )
    check_atoms(spec, made.bm, made.bn)
    if makes_weights(spec) and (not made.swapped or made.bk % row_of(spec.b_stored)):
        raise ScheduleError(
            f"bk={made.bk}, swapped={made.swapped} for weights that are made of {spec.b_stored}",
            where="schedule parameters",
            expected=f"swapped=1, for they are multiplied from registers, and bk a multiple of {row_of(spec.b_stored)}",
        )


def _bytes_of_c(spec: MatmulSpec) -> int:
    """Of an element."""
    return -(-spec.c_type.bits // 8)


def _boxes(spec: MatmulSpec, made: WarpGroupTile) -> int:
    """Bytes of shared memory that boxes of C take at most."""
    return made.boxes_of_c(_bytes_of_c(spec)) if made.fetched else _BOX_BYTES * made.consumers


def check_streamed(spec: MatmulSpec, made: WarpGroupTile | TensorMemoryTile) -> None:
    """Raises `ScheduleError` where blocks would divide the steps of tiles of a batch."""
    if made.streamed and spec.batch_axes:
        raise ScheduleError(
            "streamed=1, and products of a batch",
            where="schedule parameters",
            expected="streamed=0: other products keep a chip busy where tiles of one do not",
        )


def _slot(spec: MatmulSpec, rows: int, columns: int, depth: int) -> int:
    """Bytes of the tiles of a step."""
    return (rows * spec.a_stored.bits + spec.products * columns * spec.b_stored.bits) * depth // 8


def ranked(spec: MatmulSpec, target: GpuTarget) -> list[WarpGroupTile]:
    """The sizes that the model compares for a product, the fastest by its prediction first; none where not all extents are known."""
    work = work_of(spec)
    if work is None:
        return []
    usual = sizes(spec, target, {"cluster": 1})
    compared = _candidates(spec, work, {"bk": usual.bk, "promote": usual.promote})
    shapes = [{name: int(getattr(each, name)) for name in sorted(_SHAPE | {"bk"})} for each in compared]
    return sorted((sizes(spec, target, each) for each in shapes), key=lambda each: cycles(work, each))


def of_call(spec: MatmulSpec, target: GpuTarget, called: MatmulSpec) -> Mapping[str, int]:
    """Sizes by name for a call of a kernel with dynamic extents: the fastest of a few, by the model; empty for the usual ones.

    The usual ones stay where nothing is predicted to be faster by more than what a prediction can tell.

    Args:
        spec: The kernel's.
        target: Its target.
        called: The spec with the extents of the call.
    """
    work = work_of(called)
    fetching = [{**each, "fetched": 1} for each in _MENU] if work is not None and work.fetchable else []
    return of_menu([*_MENU, *fetching], work, lambda given: sizes(spec, target, given), _cost)


def _cost(work: Work, made: WarpGroupTile) -> float:
    """Cycles that a call would take; sizes that fetch what is added to C are none where too few steps are copied ahead."""
    return inf if made.fetched and made.stages < _FETCHED_STAGES else cycles(work, made)


def of_menu(
    menu: Sequence[Mapping[str, int]],
    work: Work | None,
    make: Callable[[Mapping[str, int]], Made],
    cost: Callable[[Work, Made], float],
) -> Mapping[str, int]:
    """Those of a menu that a call takes, as `of_call` has it; `make` makes sizes of some by name, of which `cost` predicts the cycles."""
    if work is None:
        return {}
    usual = cost(work, make({}))
    found: list[tuple[float, int]] = []
    for number, given in enumerate(menu):
        with suppress(ScheduleError):  # Not all go with all types and layouts.
            made = make(given)
            if made.split * _LEAST_STEPS * made.bk <= work.k or made.split == 1:
                found.append((cost(work, made), number))
    time, best = min(found, default=(usual, 0))
    return menu[best] if time * _NEARLY < usual else {}


def predicted(spec: MatmulSpec, made: WarpGroupTile) -> float | None:
    """The model's prediction of the cycles of a product with some sizes; None where not all extents are known."""
    work = work_of(spec)
    return None if work is None else cycles(work, made)


def least(spec: MatmulSpec) -> float | None:
    """The cycles that no kernel is faster than; None where not all extents are known."""
    work = work_of(spec)
    return None if work is None else least_cycles(work)


def _shape(spec: MatmulSpec, target: GpuTarget, usual: Mapping[str, int]) -> dict[str, int]:
    """How tiles and blocks are shaped where nothing is given.

    Of all candidates the one is taken that is predicted to be fastest (`warpgroup_time`); of those that are nearly as fast, one that
    leaves no sums in memory, the one of the fewest parts of K, then one of pairs of blocks at most, and then the one that moves the fewest
    bytes, which also take power.
    """
    work = work_of(spec)
    if work is None:
        return open_shape(spec, ROWS, lambda m: {"bm": _few(spec, m), "bn": _FEWER_COLUMNS}, _ROWS)
    best = nearly_fastest(
        work,
        _candidates(spec, work, usual),
        cycles,
        lambda each: (each.streamed, each.split, each.shared > _PAIR, each.fetched),
    )
    return {name: int(getattr(best, name)) for name in sorted(_SHAPE - {"pingpong"} | {"bk"})}


def nearly_fastest(
    work: Work,
    candidates: Iterable[Made],
    cost: Callable[[Work, Made], float],
    worse: Callable[[Made], tuple[int, ...]],
) -> Made:
    """Of sizes predicted to be nearly as fast as the fastest, the least by `worse`, and then the one that moves the fewest bytes."""
    predicted = [(cost(work, each), each) for each in candidates]
    least = min(time for time, _ in predicted)
    nearly = [each for time, each in predicted if time <= _NEARLY * least]
    return min(nearly, key=lambda each: (*worse(each), traffic(work, each)))


def open_shape(spec: MatmulSpec, few: int, swapped: Callable[[int], dict[str, int]], rows: int) -> dict[str, int]:
    """How tiles and blocks are shaped where not all extents are known.

    Up to `few` rows are columns of instructions, in tiles of the sizes that `swapped` gives for so many; of more than the `rows` of a
    tile, two blocks share the tile of B.
    """
    if not isinstance(spec.m, int):
        return {}
    if spec.m <= few:
        return {"swapped": 1, **swapped(spec.m)}
    return {"cluster": 2} if spec.m > rows else {}


def _candidates(spec: MatmulSpec, work: Work, usual: Mapping[str, int]) -> Iterator[WarpGroupTile]:
    """Sizes that are compared: tiles of one and of two consumers, blocks that share tiles of A or B, parts of K.

    Ping-pong is none of them: of 381 products that were measured on an H200, the best sizes without it have 0.999 of the best rate.
    """
    if makes_weights(spec):
        yield from _held_candidates(spec, work, usual["bk"])
        return
    tiles = [(bm, bn, 0) for bm in TILE_ROWS for bn in TILE_COLUMNS]
    tiles += [(bm, bn, 1) for bm in few_rows(spec) for bn in _SWAPPED_COLUMNS]
    for bm, bn, swapped in tiles:
        down, across = (bn, bm) if swapped else (bm, bn)
        consumers = min(2, down // ROWS)
        groups, promote = work.products * down // consumers // ROWS, bool(usual["promote"])
        if not sums_fit(groups, across, promote=promote) or (promote and _spills(groups, work.bytes_out)):
            continue
        slot, bk = (bm + work.products * bn) * ROW_BYTES, usual["bk"]
        boxes = _BOX_BYTES * consumers
        if not usual["promote"] and _stages(2 * slot, boxes) >= _MANY_STAGES:
            slot, bk = 2 * slot, 2 * bk
        shape: Any = {"bm": bm, "bn": bn, "bk": bk, "consumers": consumers, "swapped": bool(swapped)}
        shape |= {"products": work.products, "stages": _stages(slot, boxes)}
        most_split = -(-work.k // bk) // _LEAST_STEPS
        for split in SPLITS:
            if split == 1 or (split <= most_split and _parts_fit(work.products, bm, bn, _stages(slot, boxes) * slot)):
                yield from _and_fetched(spec, work, slot, WarpGroupTile(**shape, split=split))
        shared = [{}]
        if not swapped:
            shared += [{"cluster": 2}] * (work.m > bm) + [{"beside": 2}] * (work.n > bn and not work.gathers)
            shared += [{"cluster": 2, "beside": 2}] * (work.m > bm and work.n > bn and not work.gathers)
        for each in shared:
            if each:
                yield from _and_fetched(spec, work, slot, WarpGroupTile(**shape, **each))
            if work.batch == 1 and _streams(spec, consumers):
                yield from _and_fetched(spec, work, slot, WarpGroupTile(**shape, **each, streamed=True))


def _and_fetched(spec: MatmulSpec, work: Work, slot: int, made: WarpGroupTile) -> Iterator[WarpGroupTile]:
    """Sizes, and the same with what is added to C in shared memory before, where that leaves enough slots of so many bytes."""
    yield made
    if work.fetchable and made.split == 1:
        fetched = replace(made, fetched=True)
        stages = _stages(slot, _boxes(spec, fetched))
        if stages >= _FETCHED_STAGES:
            yield replace(fetched, stages=stages)


def _held_candidates(spec: MatmulSpec, work: Work, bk: int) -> Iterator[WarpGroupTile]:
    """The same where consumers make weights in registers: few rows or many, parts of K."""
    rows = few_rows(spec)
    most_split = -(-work.k // bk) // _LEAST_STEPS
    for bm in rows:
        for bn in _SWAPPED_COLUMNS:
            consumers = min(2, bn // ROWS)
            slot = _slot(spec, bm, bn, bk)
            stages = _stages(slot, _BOX_BYTES * consumers)
            shape: Any = {"bm": bm, "bn": bn, "bk": bk, "consumers": consumers, "swapped": True, "stages": stages}
            for split in SPLITS:
                if split == 1 or (split <= most_split and _parts_fit(1, bm, bn, stages * slot)):
                    yield from _and_fetched(spec, work, slot, WarpGroupTile(**shape, split=split))


def few_rows(spec: MatmulSpec) -> list[int]:
    """Rows of tiles whose rows of C are columns of instructions; none where there are more, or it is not known how many."""
    if not isinstance(spec.m, int) or not spec.m:
        return []
    if makes_weights(spec):
        return sorted({min(_few(spec, spec.m), most) for most in (_MOST_HELD // 2, _MOST_HELD)})
    return [_few(spec, spec.m)] if spec.m <= _MOST_SWAPPED else []


def fetchable(spec: MatmulSpec) -> bool:
    """Whether what is added to C can be copied to shared memory before: it has elements of as many bits."""
    return 8 * _bytes_of_c(spec) in added_bits(spec)


def _few(spec: MatmulSpec, m: int) -> int:
    """So many rows as columns of instructions."""
    granule = 8 if spec.a_stored.kind == "float" else _INTEGER_COLUMNS
    if spec.transposed[0]:
        granule = atom(spec)
    return max(granule, -(-m // granule) * granule)


def work_of(spec: MatmulSpec) -> Work | None:
    """What is to be done; None where the spec does not tell, or where there is nothing."""
    extents = (spec.m, spec.n, spec.k, *spec.batch)
    known = [each for each in extents if isinstance(each, int) and each]
    if len(known) < len(extents):
        return None
    m, n, k, *batch = known
    bytes_in, bytes_out, added = spec.a_stored.bits // 8, _bytes_of_c(spec), added_bits(spec)
    finish: Any = {"bytes_added": sum(added) / 8, "fetchable": fetchable(spec), "gathers": spec.gathers}
    if not makes_weights(spec):
        return Work(m, n, k, prod(batch), bytes_in, bytes_out, products=spec.products, **finish)
    is_short = all(each.type == spec.a or each.type in _INTEGERS for each in spec.chain_b.operands)
    codes = spec.b_stored
    instructions = _PAIR_INSTRUCTIONS[codes.bits, is_short and codes.kind != "float"]
    return Work(m, n, k, prod(batch), bytes_in, bytes_out, codes.bits, instructions, **finish)


def _stages(slot: int, boxes: int) -> int:
    """How many slots of so many bytes the memory holds that `boxes`, bytes of those of C, leave."""
    room = _SHARED_BYTES - boxes
    return max(2, min(_MOST_STAGES, room // slot)) if slot > 0 else 2
