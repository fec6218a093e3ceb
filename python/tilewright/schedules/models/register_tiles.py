# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Register tiles: which there are, how wide their vectors are, what a step over k of one costs, and the one that suits a result best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from tilewright.dims import most as most_of
from tilewright.dtypes import DType, dtype
from tilewright.schedules.models.sizes import MAX_SIZE, ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

# What a load costs beside the multiply-adds that hide it, in issue slots. On a Zen 5 core a 12 x 2 tile (14 loads for 24
# multiply-adds) runs at 0.92 of the rate of a 6 x 4 tile (10 loads), which a quarter of a slot a load explains.
_LOAD_COST = 0.25


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a step takes longer on a core that waits for what comes from L2.

    Attributes:
        vector: Cycles in which L2 delivers a vector of B.
        unhidden: The part of what a step then lacks that is not hidden.
        load: Slots that a load costs.
    """

    vector: float
    unhidden: float
    load: float


FOR_B = Waiting(vector=3, unhidden=0.5, load=0.35)
"""For a B that comes as it is asked for.
Measured on Cascade Lake, in GFLOP/s, by vectors of sums: packed f32 960 x 960 x 960 5 x 5 113, 6 x 4 116, 8 x 3 115; 192 x 768 x 768 4 x 6
109, 6 x 4 116, 8 x 3 115, 14 x 2 111; 128 x 3072 x 768 4 x 6 87, 6 x 4 92, 8 x 3 98, 14 x 2 88; u8 by i8 960 x 960 x 960 5 x 5 401, 6 x 4
424, 8 x 3 458, 14 x 2 447; 192 x 768 x 768 4 x 6 414, 5 x 5 417, 6 x 4 450, 8 x 3 443; unpacked f32 64 x 448 x 1024 5 x 5 89, 6 x 4 106,
8 x 3 92; 32 x 1000 x 512 4 x 6 81, 6 x 4 84, 8 x 3 84; but 700 x 65 x 700 5 x 5 98, 6 x 4 72, 9 x 3 71, 14 x 2 65."""
FOR_PANELS_AHEAD, SPARE = Waiting(vector=4, unhidden=0.25, load=0.35), 2
"""For panels of B that are prefetched, and meet strips of A; and registers that are then better left free. Measured there, packed, f32, in
GFLOP/s: 1440 x 1920 x 768 8 x 3 vectors of sums 127, 6 x 4 124, 12 x 2 122, 5 x 5 122, 14 x 2 121, 7 x 3 121, 9 x 3 121; 1024 x 1024 x 1024
119, 121, 119, 110, 119, 117, 108."""
_ROWS_OF_A_STRIP = 4
"""Rows from which on a tile that has all columns is better than two of more rows: 4 x 96 sums and 6 x 64 by 938 x 88 x 129 in f32 0.86, 4 x
48 and 6 x 32 by 912 x 48 x 80 in f64 0.82; but 2 x 160 and 5 x 80 by 512 x 160 x 400 in f32 1.8."""
_A_ELEMENT, _B_VECTOR = 0.4, 0.5
"""Cycles that an element of A and a vector of B cost in place of that with fewer registers, whose tiles are narrow. On Zen 3, packed,
240 x 240 x 240 in f32, in GFLOP/s, alone on the core, and where another program shares it: 4 x 3 vectors 93.9, 78; 6 x 2 93.5, 76; 5 x 2
93.3, 75; 4 x 2 91.6, 72; 3 x 3 88.8, 72; 2 x 5 85.2, 67; 2 x 4 85.0, 61; so shared, with 6 x 2 and 4 x 3, 1024 x 1024 x 1024 71, 78;
2048 x 2048 x 2048 68, 74; 512 x 4096 x 1024 67, 76. A level's cores may start four operations a cycle, of which loads take some: llvm-mca
has 6 x 2 at 83 % of Haswell's bound."""

_STORED, _STORE_CYCLES, _STORING_STEPS = 12, 6, 16
"""Vectors that a core stores at once while it multiplies, where they go through its units in several passes; cycles that each further one
of a tile takes longer; and the steps below which it is the less, as all tiles then wait for their stores. Measured on Zen 4, 192 x 192, in
GFLOP/s, by vectors of sums: f32, unpacked, K 16, 32, 64 and 128, 4 x 3 110, 113, 115, 116; 4 x 4 104, 109, 115, 115; 6 x 4 103, 105, 112,
114; 12 x 2 100, 103, 113, 114; u8 by i8, packed, K 32, 64, 128, 256, 3 x 4 376, 411, 431, 437; 4 x 4 322, 373, 415, 429; 6 x 4 314, 386,
393, 429. Half vectors, or half as many stores, took no time."""

_LOAD_OPERATIONS = 2
"""Micro-operations of a load with its share of the counters and addresses of the loop, of a target whose `issue_per_cycle` is known.
LLVM's model of neoverse-n1 has 14 x 4 sums of f32 at 7.8 cycles a step, and 8 x 8 at 8.0."""

_NARROW_GAIN = 1.03
"""How much less time vectors of a part of a register are to take by the model. Measured on Zen 4 in f32, in GFLOP/s, vectors of 8 and of 16
elements: 1536 x 24 x 6144 106 and 83, 1000 x 33 x 1000 91 and 76, 2000 x 56 x 300 108 and 97, 2000 x 72 x 300 106 and 101, 700 x 65 x 700
96 and 94, 100 x 100 x 100 105 and 102; where they waste as much, 256 x 256 x 256 114 and 116, 123 x 789 x 456 107 and 113."""

_LEAST_VECTOR_BITS = 128
"""The narrowest vectors that a register is used in parts of."""

MANY_ROWS = 720720
"""Rows of which every tile wastes none, or next to none: a multiple of all numbers up to 16."""
MANY_REGISTERS = 32
"""Registers with which tiles are several lines wide."""


def register_tiles(
    target: Target, lanes: int, *, fused: bool = True, rows: int = 1, held: int = 0
) -> Iterator[tuple[int, int]]:
    """All (mr, nr) that fit the vector registers.

    They hold the accumulators, a row of B, a broadcast element of A and, where multiply and add are two instructions
    (on the target, or for these types: without `fused`), the product. Where a multiply-add takes
    an element of A by lane, a step over k is as long as a register has lanes: they hold a register of each row of A, and as
    many rows of B, because LLVM loads them all before it uses the first. Where it multiplies several `rows` by as many
    columns, they hold all of B for it, and five of A: with three, 12 x 8 sums reach 94 % of the bound on neoverse-v2, and are
    spilled at some K; 10 x 8 reach 92 and are not. `held` more hold something else.
    """
    others = 1 if fused and target.fuses else 2
    for vectors in range(1, target.vector_registers):
        for mr in range(rows, target.vector_registers, rows):
            operands = mr + vectors * lanes if target.by_lane else vectors + others
            if rows > 1:
                operands = vectors * lanes // rows + 5
            if mr * vectors + operands + held <= target.vector_registers:
                yield mr, vectors * lanes


def tile_cycles(
    target: Target,
    mr: int,
    vectors: int,
    lanes: int = 1,
    rows: int = 1,
    *,
    waits: Waiting | None = None,
    steps: int = 0,
) -> float:
    """Cycles of one step over k of a register tile: the multiply-adds, their latency or the loads, whichever is slowest.

    An instruction that multiplies several `rows` at once has as many columns of B in a register. The core `waits` for a B from L2. Where
    the number of `steps` is known, their part of what storing the sums takes is counted.
    """
    loads = (mr / lanes if target.by_lane else mr) + vectors
    if rows > 1:
        loads = (mr + vectors * lanes) / rows
    busy = mr * vectors / target.fma_per_cycle
    if target.issue_per_cycle:
        issue = (mr * vectors + _LOAD_OPERATIONS * loads) / target.issue_per_cycle
        return max(busy, loads / target.loads_per_cycle, target.fma_latency, issue)
    longest = max(busy, loads / target.loads_per_cycle, target.fma_latency)
    if target.vector_registers < MANY_REGISTERS and not target.is_level:
        return longest + _A_ELEMENT * mr + _B_VECTOR * vectors
    if waits is not None:
        late = max(0, vectors - busy / waits.vector)
        return longest + waits.load * loads / target.loads_per_cycle + waits.unhidden * late
    burst = max(0, mr * vectors - _STORED) * _STORE_CYCLES if steps and target.passes > 1 else 0
    return longest + _LOAD_COST * loads / target.loads_per_cycle + burst / max(steps, _STORING_STEPS)


def lanes_for(spec: MatmulSpec, target: Target, *, narrowed: bool = True) -> int:
    """Elements of the vectors that rows of C are computed in: a part of a register where that holds a row.

    A part of a vector that is wasted still takes its time, and half a register is never slower than a whole one. Where it takes half the
    time, more halves may waste less of a row, if it may be `narrowed`. What multiplies narrow elements has whole registers only.
    """
    element, n = spec.acc_type, most_of(spec.n)
    if spec.widens:
        return target.lanes(element)
    least = min(_LEAST_VECTOR_BITS // element.bits, target.lanes(element))
    lanes = min(target.lanes(element), max(least, 1 << (max(n, 1) - 1).bit_length()))
    if n <= lanes or not (narrowed and may_be_narrow(spec, target)):
        return lanes
    return _narrowed(target, element, (most_of(spec.m), n), padded=False)


@cache
def at_width(target: Target, element: DType, lanes: int) -> Target:
    """`target` as it issues vectors of so many elements: those that go through its units in fewer passes start more often."""
    return _issuing(target, target.passes // ceil_div(lanes * target.passes, target.lanes(element)))


@cache
def _issuing(target: Target, times: int) -> Target:
    """`target` with so many times the rates."""
    rates = {name: times * getattr(target, name) for name in ("fma_per_cycle", "loads_per_cycle")}
    return target if times == 1 else replace(target, **rates, passes=1)


def panel_lanes(spec: MatmulSpec, target: Target) -> int:
    """Elements of the vectors that rows of C are computed in of packed panels: a part of a register where that wastes less of a row.

    Panels that are packed ahead of time, or by calls of several extents, have whole ones: they are the same for all.
    """
    lanes, dot = target.lanes(spec.acc_type), target.dot(*spec.multiplied)
    same = spec.dynamic or spec.b_packed or spec.deterministic or spec.has_rows or spec.products > 1
    if target.passes == 1 or same or dot.rows > 1 or not (dot.half or dot.kind == "multiply_add"):
        return lanes
    return _narrowed(target, spec.acc_type, (spec.m, spec.n), padded=True, fused=dot.adds)


def panel_bytes(spec: MatmulSpec, target: Target) -> int:
    """Bytes of an element in packed panels: its own, those of the type to which packing widens it, or those of its pieces."""
    if spec.split:
        return spec.split.entries * dtype(spec.split.element).bytes
    storage = target.dot(*spec.multiplied).storage
    return spec.a_type.bytes if storage is None else int(storage.lstrip("bfi")) // 8


def _narrowed(target: Target, element: DType, result: tuple[int, int], **given: bool) -> int:
    """Elements of a register, or of a part of one where a result takes less time so."""
    lanes = target.lanes(element)
    whole, part = (_best_cycles(target, element, *result, each, **given) for each in (lanes, lanes // target.passes))
    return lanes // target.passes if part * _NARROW_GAIN < whole else lanes


@cache
def _best_cycles(
    target: Target, element: DType, m: int, n: int, lanes: int, *, padded: bool = False, fused: bool = True
) -> float:
    """Cycles of one step over k of an m x n result in the best tiles of vectors of so many elements."""
    core = at_width(target, element, lanes)
    given = {"lanes": lanes, "padded": padded, "ends_narrow": core.passes > 1 and not padded}
    return result_cycles(core, m, n, register_tile(core, element, m, n, fused=fused, **given), **given)


def last_lanes(spec: MatmulSpec, target: Target, nr: int) -> int:
    """Elements of what the last columns are made up to whole vectors of, of tiles of nr columns that are not padded."""
    lanes, rest = lanes_for(spec, target), most_of(spec.n) % nr
    narrow = target.lanes(spec.acc_type) // target.passes
    return min(lanes, narrow) if 0 < rest <= narrow and may_be_narrow(spec, target) else lanes


def may_be_narrow(spec: MatmulSpec, target: Target) -> bool:
    """Whether rows of C may be computed in parts of registers, which take a part of the time."""
    if target.passes == 1 or spec.dynamic:
        return False
    return not spec.widens or bool(target.dots(*spec.multiplied)[-1].half)


def _parts(extent: int, size: int) -> tuple[tuple[int, int], ...]:
    """How an extent is cut into tiles: (how many, of what size) of the full ones, and of the short one."""
    full, rest = divmod(max(extent, 1), size)
    return tuple((count, part) for count, part in ((full, size), (1, rest)) if count and part)


def result_cycles(
    target: Target,
    m: int,
    n: int,
    tile: tuple[int, int],
    *,
    lanes: int,
    padded: bool,
    rows: int = 1,
    far: float = 0.0,
    ends_narrow: bool = False,
    waits: Waiting | None = None,
    odd: float = 0.0,
    steps: int = 0,
) -> float:
    """Cycles of one step over k of an m x n result in register tiles of mr x nr.

    With `padded`, short tiles take as long as full ones; otherwise as long as a tile of their rows and vectors. `rows` and `steps`
    as for `tile_cycles`. A vector of a B from beyond L2 takes `far` more, where tiles are not padded. With `ends_narrow`, the last columns
    are a part of a vector where they fit in; the core `waits` for a B of several strips, or of few rows. A vector of
    C takes `odd` more where tiles have an odd number of them side by side.
    """
    mr, nr = tile
    if nr >= n and mr >= _ROWS_OF_A_STRIP:
        waits = None
    if nr >= n or nr // lanes % 2 == 0:
        odd = 0.0
    if padded:
        cost = tile_cycles(target, mr, nr // lanes, lanes, rows, waits=waits, steps=steps)
        return ceil_div(max(m, 1), mr) * ceil_div(max(n, 1), nr) * (cost + odd * mr * (nr // lanes))

    def cycles(height: int, columns: int) -> float:
        core = target
        if ends_narrow and columns * target.passes <= lanes:
            core = _issuing(target, target.passes)
        vectors = ceil_div(columns, lanes)
        cost = tile_cycles(core, height, vectors, lanes, rows, waits=waits, steps=steps)
        return cost + far * vectors + odd * height * vectors

    return sum(
        down * across * cycles(height, columns) for down, height in _parts(m, mr) for across, columns in _parts(n, nr)
    )


@cache
def register_tile(
    target: Target,
    element: DType,
    m: int,
    n: int,
    *,
    nr: int | None = None,
    lanes: int = 0,
    most: int = MAX_SIZE,
    padded: bool = True,
    fused: bool = True,
    rows: int = 1,
    products: int = 1,
    held: int = 0,
    far: float = 0.0,
    ends_narrow: bool = False,
    waits: Waiting | None = None,
    odd: float = 0.0,
    steps: int = 0,
) -> tuple[int, int]:
    """The register tile with which an m x n result takes the fewest cycles, as `result_cycles` counts them.

    With `nr`, the best of that many columns; with `lanes`, of vectors of that many; `most` rows at most, a multiple of
    `rows`; `fused` and `held` as for `register_tiles`; `far`, `ends_narrow`, `waits`, `odd` and `steps` as for `result_cycles`. With
    several `products` of the same rows, each has so many columns.
    """
    lanes = lanes or target.lanes(element)

    def cycles(tile: tuple[int, int]) -> tuple[float, float]:
        size, sides = tile[0] * tile[1], tile[0] + tile[1]
        # Loads that hide take no time, and are better saved all the same.
        second = sides / size if target.issue_per_cycle else -size
        how = {"lanes": lanes, "padded": padded, "rows": rows, "far": far, "ends_narrow": ends_narrow, "waits": waits}
        return result_cycles(target, m, n * products, tile, **how, odd=odd, steps=steps), second

    fitting = (
        tile
        for tile in register_tiles(target, lanes, fused=fused, rows=rows, held=held)
        if tile[0] <= most
        and nr in (None, tile[1])
        and tile[1] % (products * lanes) == 0
        # A wider one than the result has its vectors, too, and registers for fewer rows.
        and (nr or tile[1] < max(n, 1) * products + products * lanes)
    )
    mr, columns = min(fitting, key=cycles)
    return mr, columns // products
