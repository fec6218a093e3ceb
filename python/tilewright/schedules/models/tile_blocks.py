# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cache blocks of products in tile registers (AMX): the model that chooses them by counting tile loads, by the level they come from.

Eight tile registers multiply faster than any cache but L1 delivers. So a slice of B with all of K stays in L2, where it fits, and a few
rows of A at a time meet it; else a block of C stays there over all of K, with the slices of A and B that it meets next. Each tile that is
loaded has a reuse distance: the bytes that are touched since it was last used (Mattson et al., "Evaluation techniques for storage
hierarchies", IBM Systems Journal 9(2), 1970), which say what level it comes from.

Measured with tile loads on one core of Sapphire Rapids with huge pages, a loop of 2 x 2 tiles, whose products take 64 cycles a step, runs
at full speed with both panels in L1; with one panel in L2 it reaches 93 % of the peak where that panel has 256 KiB, and 65 % where it
has 1 MiB, and 28 % where it comes from beyond L2. Two tiles a step then take 64 cycles by these shares to arrive.

Numbers matter. On one core of a virtual Granite Rapids (2026-11-30) such a loop, both panels in L1, runs at the rate of products in
registers with zeros in either operand, and otherwise at 82 % of it, as soon as one tile a step is loaded: what switches takes power.
Stores of 2 x 2 tiles of C to L2 take 200 cycles more. So 256 x 512 x 256 in bf16, all of it in L2 and packed, runs at 55 % of that rate
when written in C, and at 50 % here; 1024 x 1024 x 1024, B packed by the call, at 38 and 35 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import inf

from tilewright.schedules.models import tiles
from tilewright.schedules.models.sizes import Blocking, ceil_div, even
from tilewright.targets.dots import AMX_ROW_BYTES, AMX_ROWS

TILE_BYTES = 1 << 10
_LINE = 64
_LOAD_CYCLES = 8
"""To load a tile from L1: two of its sixteen lines a cycle."""
_STORE_CYCLES = 16
"""To store a tile to L1: a line a cycle."""
_ARRIVALS = ((1 / 8, 32 / 0.93), (1 / 2, 32 / 0.65), (1, 32 / 0.28))
"""Shares of L2 that are touched between two uses of a tile, and the cycles in which it arrives then: what was measured."""
_WAITED, _WAITED_FIRST = 0.65, 0.4
"""Fitted to 2939 blocks of 200 products, most of them random, on one core of a Granite Rapids server (2 MiB of L2; 2026-11-29), with
`_MEMORY`, `_PACK_CYCLES`, `_AROUND`, `_RUN_CYCLES`, `_KEPT`, `_SLICED` and `_HIDDEN`: the shares of what a tile takes longer than from L1
that the products wait for, and that they, and packing, wait for where a panel of B is met for the first time, in order. The block chosen
so takes 1.06 times as long as the best that was measured, in the geometric mean; with what was fitted on Emerald Rapids before, 1.11."""
_MEMORY = 0.55
"""How many times as long as a tile of its level one takes that comes from memory for the first time."""
_PACK_CYCLES, _TURN_CYCLES, _WRITTEN = 20, 150, 2
"""To pack a KiB: each line is loaded, shuffled with its neighbor in K, and stored. The same of a B that is stored column after
column, fitted with `_COLUMN_CYCLES` to 26 products of it by 12 blocks (2026-11-30): of 74 others 48 change, to 1.08 times the speed. And
what panels take to be written that are packed for later, in times what a tile takes longer to arrive. That and `_FINISH_CYCLES` were fitted
to 214 random products with an epilogue (2026-11-30), whose K is one slice or several, on the same machine: what is chosen so takes 1.02
times as long as the better one of both, without them 1.05."""
_AROUND = 3
"""Times a slice of B what is touched besides while it is packed: the rows that it is made of, and the next ones, which are prefetched."""
_RUN_CYCLES, _COLUMN_CYCLES = 36, 54
"""Until the first line of a run of B comes that L2 does not have, along rows and along columns: those behind it are foreseen. Where a slice
has whole rows, they are one run. In GFLOP/s of bf16: 64 x 2048 x 2048 in blocks of 512 and 256 columns, 256 deep, 609 and 531."""
_KEPT = 1.5
"""Times L2, the bytes of all three operands from which on it begins to have lost B by the next call."""
_AGAIN = 2.5
"""How many times as long as in long rows the slices of A take, beyond what L2 delivers, that come anew for each block of columns, in rows
as short as a slice is deep. Fitted with `_UNEVEN` to 136 random products of up to 4500 x 4500 x 4500, most of them too large for L2, by 6
to 11 blocks each (2026-11-30): 28 of 66 others change, to 1.18 times the speed in the geometric mean, 4096 x 4096 x 4096 in bf16 from 863
to 1072 GFLOP/s."""
_SLICED = 1.05
"""How many times as long a product takes that goes on with the sums of the slice of K before."""
_FINISH_CYCLES = 150
"""To do something to a KiB of sums that wait in scratch, beyond what it takes where they are stored from tile registers."""
_UNEVEN = 1.1
"""How many times as long a product takes whose last slices are shorter than the others: its loops over K have ends that are computed.
Measured on Emerald Rapids (2026-11-28), in GFLOP/s, slices that divide K and not: bf16 64 x 4096 x 4096 262 and 192, 96 x 640 x 2720 293
and 237, u8 by i8 128 x 768 x 3072 704 and 551."""
_HIDDEN, _FEW_PANELS = 0.85, 4
"""Of the products of a few panels of A, all that there are, with a packed panel of B the share in which the next one comes from memory; and
how many are few. Measured on Emerald Rapids (2026-11-28), one block of all rows and blocks of a tile's, in GFLOP/s: bf16 128 x 3072 x 768
421 and 284, u8 by i8 128 x 768 x 3072 2034 and 1533, 64 x 4096 x 4096 860 and 691."""
STREAMS = 2 * AMX_ROWS
"""Rows of a tile that are read where they lie, each from another page of memory."""
_LEAST_ROWS = 9
"""Of a tile register: fewer are no more than one register has where there are two."""
_UNITS = (1, 2, 4, 8, 12, 16, 20, 24, 32)
"""Register tiles down and across a block, before it is evened out. It bounds the search."""
_ROW_LENGTHS = (128, 256, 384, 512, 640, 768, 1024, 2048, 4096)
"""Bytes of a row of a panel, before it is evened out."""
_LONGEST = 8192
"""The same where B is packed by the call: few columns by all of K then take the place of slices that are packed again and again."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product as its panels have it.

    Attributes:
        m: Rows.
        n: Columns.
        k: Products for each sum.
        element: Bytes of an element in a panel, or of its pieces.
        step: Elements of K that are multiplied in one step.
        b_packed: Whether B comes packed.
        a_fits: Whether rows of A are stored as panels have them, so that A can be read where it lies.
        b_turned: Whether B is stored column after column.
        finished: Whether something is done to the sums, which wait in scratch where K is more than one slice.
    """

    m: int
    n: int
    k: int
    element: int
    step: int
    b_packed: bool = False
    a_fits: bool = False
    b_turned: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Caches:
    """The bytes of L1 and L2."""

    l1: int
    l2: int

    def level(self, distance: float) -> str:
        """Where a tile is that was last used so many bytes ago: "L1", "L2", or "beyond"."""
        return "L1" if distance <= self.l1 else "L2" if distance <= self.l2 else "beyond"

    def arrival(self, distance: float) -> float:
        """Cycles in which such a tile arrives, one after the other; between the sizes that were measured on a line."""
        if distance <= self.l1:
            return _LOAD_CYCLES
        (share, cycles), *more = _ARRIVALS
        for further, longer in more:
            if distance <= share * self.l2:
                break
            part = min((distance / self.l2 - share) / (further - share), 1)
            cycles, share = cycles + part * (longer - cycles), further
            if part < 1:
                break
        return cycles


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads of tiles of one operand in the hot loop of a call.

    Attributes:
        operand: "A", "B" or "C".
        count: How many tiles.
        distance: Bytes touched since each was last used.
    """

    operand: str
    count: int
    distance: float


@dataclass(frozen=True, slots=True)
class _Nest:
    """How often the loops of a nest run, and what they touch, in bytes."""

    product: Product
    block: Blocking

    @property
    def passes(self) -> int:
        return ceil_div(self.product.k, self.block.kc)

    @property
    def steps(self) -> int:
        """Of the hot loop, over K."""
        return ceil_div(self.block.kc, self.product.step)

    @property
    def deep(self) -> int:
        """Tiles along K of a panel: one a step, or one for each piece."""
        return ceil_div(self.depth_bytes, AMX_ROW_BYTES)

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of C, down and across."""
        return ceil_div(self.product.m, self.block.mc), ceil_div(self.product.n, self.block.nc)

    @property
    def tiles(self) -> tuple[int, int]:
        """Register tiles of a block, down and across."""
        return ceil_div(self.block.mc, self.block.mr), ceil_div(self.block.nc, self.block.nr)

    @property
    def registers(self) -> tuple[int, int]:
        """Tile registers of a register tile, down and across."""
        return ceil_div(self.block.mr, AMX_ROWS), ceil_div(self.block.nr, AMX_ROWS)

    @property
    def depth_bytes(self) -> int:
        """Bytes of a row of a panel."""
        return self.steps * self.product.step * self.product.element

    @property
    def panels(self) -> tuple[int, int]:
        return self.block.mr * self.depth_bytes, self.block.nr * self.depth_bytes

    @property
    def slices(self) -> tuple[int, int]:
        return self.block.mc * self.depth_bytes, self.block.nc * self.depth_bytes

    @property
    def sums(self) -> int:
        return self.block.mc * self.block.nc * 4

    @property
    def in_place(self) -> bool:
        """Whether A is read where it lies: by blocks of the rows of a tile, in whole tiles and slices."""
        return self.product.a_fits and is_in_whole_strips(self.product.m, self.product.k, self.block)

    @property
    def run(self) -> float:
        """Bytes of a slice of B that lie behind each other."""
        along, whole = (self.block.kc, self.product.k) if self.product.b_turned else (self.block.nc, self.product.n)
        return along * self.product.element if along < whole else inf

    @property
    def repacked(self) -> tuple[int, int]:
        """How often each element of A and of B is packed: once where panels have all of K, B for all blocks of A, and A where it is one."""
        down, across = self.blocks
        sliced = self.passes > 1
        return across if sliced or down > 1 else 1, down if sliced else 1


def is_in_whole_strips(m: int, k: int, block: Blocking) -> bool:
    """Whether blocks of A have the rows of a tile, and are all whole."""
    return block.mc == block.mr and m % block.mr == 0 and k % min(block.kc, max(k, 1)) == 0


def loads(product: Product, block: Blocking) -> Iterator[Loads]:
    """The tile loads of a call, by operand and reuse distance.

    A panel of A is met again by the next panel of B, a panel of B by the next one of A, and a tile of C by the next slices, for which the
    next elements of A and B have then come too.
    """
    nest = _Nest(product, block)
    (down, across), (rows, columns) = nest.registers, nest.tiles
    (slice_a, slice_b), (panel_a, panel_b) = nest.slices, nest.panels
    blocks = nest.blocks[0] * nest.blocks[1] * nest.passes
    a, b = blocks * rows * down * nest.deep, blocks * columns * across * nest.deep
    yield Loads("A", a, 2 * slice_a)
    yield Loads("A", a * (columns - 1), slice_a + panel_b + block.mc * block.nr * 4)
    kept = nest.sums if nest.passes == 1 and nest.blocks[0] > 1 else 0
    yield Loads("B", b, slice_a + slice_b + kept)
    yield Loads("B", b * (rows - 1), panel_a + panel_b + block.mr * block.nr * 4)
    again = blocks // nest.passes * (nest.passes - 1)
    yield Loads("C", again * rows * columns * down * across, nest.sums + 2 * (slice_a + slice_b))


def past_l1(product: Product, block: Blocking, caches: Caches) -> int:
    """Whose tiles pass L1 by, as bits: 1, B's; 2, A's. Those of panels that L1 would not hold until they are met again.

    The panel that the next ones of the other operand meet then stays. One larger than L1 passes by itself, too, but not where A is read
    where it lies, rows far apart. Measured on one core of Emerald Rapids (2026-11-28), in times the speed of plain loads, A packed and B
    256 columns: bf16 192 x 256 x 256 0.95, x 320 0.98, x 384 1.08, x 512 1.18, x 768 1.06, both panels past L1 x 1024 1.13. A in place,
    1024 x 1024 x 1024: B's 1.24, both 0.92.
    """
    nest = _Nest(product, block)
    a, b = nest.panels
    if a + b + block.mr * block.nr * 4 <= caches.l1:
        return 0
    stays, passes = (a, 1) if block.mc <= block.mr else (b, 2)
    return 3 if stays > caches.l1 and not nest.in_place else passes


def by_level(product: Product, block: Blocking, caches: Caches) -> dict[str, dict[str, int]]:
    """How many tiles are loaded, by operand, from L1, L2 and beyond."""
    found: dict[str, dict[str, int]] = {operand: {"L1": 0, "L2": 0, "beyond": 0} for operand in "ABC"}
    for each in loads(product, block):
        found[each.operand][caches.level(each.distance)] += each.count
    return found


def cycles(product: Product, block: Blocking, caches: Caches) -> float:
    """Cycles of a call: of products or of the arrival of tiles, whichever takes longer, of sums between slices, of packing, and of memory.

    Nothing of the last three is taken to be hidden, but for a packed B that few rows meet: sums wait for their loads, and are stored when
    they are complete; prefetching the next slices changed little where it was tried.
    """
    nest = _Nest(product, block)
    (down, across), (rows, columns) = nest.registers, nest.tiles
    busy = nest.deep * tiles.busy_cycles(down, across)
    a_first, a_again, b_first, b_again, c = (caches.arrival(each.distance) for each in loads(product, block))
    past = past_l1(product, block, caches)
    if past == 1:
        a_again = caches.arrival(nest.panels[0])
    elif past == 2:
        b_again = caches.arrival(nest.panels[1])
    a_first, a_again, b_again = (_waited(each, _WAITED) for each in (a_first, a_again, b_again))
    # Right after it is packed, a panel has met the other ones of its block, and the rows that they were made of.
    fresh = b_first if product.b_packed else caches.arrival(sum(nest.slices) + _AROUND * nest.slices[1])
    rounds = nest.blocks[0] if nest.passes == 1 else 1
    b_first, fresh = (_waited(each, _WAITED_FIRST) for each in (b_first + (fresh - b_first) / rounds, fresh))
    from_a = (a_first + a_again * (columns - 1)) / columns
    sums = down * across * (_STORE_CYCLES + c * (nest.passes - 1) / nest.passes)
    hot = sum(
        count * (max(busy, nest.deep * (down * from_a + across * from_b)) + sums)
        for count, from_b in ((1, b_first), (rows - 1, b_again))
    )
    hot *= nest.blocks[0] * nest.blocks[1] * nest.passes * columns
    a, b = (side * product.k * product.element / TILE_BYTES for side in (product.m, product.n))
    times_a, times_b = nest.repacked
    packed_a, packed_b = a * times_a * (not nest.in_place), b * times_b * (not product.b_packed)
    packing = packed_a * (_PACK_CYCLES + fresh)
    # Panels that fill more than half of L2 are written beyond it before they are met.
    written = max(caches.arrival(sum(nest.slices)) - _ARRIVALS[1][1], 0) * _WRITTEN
    packing += packed_b * (fresh + (_TURN_CYCLES if product.b_turned else _PACK_CYCLES) + written)
    bytes_a, bytes_b = (side * product.k * product.element for side in (product.m, product.n))
    bytes_c = product.m * product.n * 4
    from_memory = caches.arrival(bytes_a + bytes_b + bytes_c)
    # A is read again when it has met a block of B, as that lies and in panels.
    part = min(block.nc / product.n, 1)
    again_a = caches.arrival(
        min(bytes_a + (bytes_b * (2 - product.b_packed) + bytes_c) * part, bytes_a + bytes_b + bytes_c)
    )
    if nest.passes > 1 and not product.b_packed:
        again_a += max(again_a - _ARRIVALS[1][1], 0) * (_AGAIN - 1)
    memory_a = a * (from_memory * _MEMORY + again_a * (times_a - 1))
    memory_b = b * from_memory * times_b * _MEMORY
    if not product.b_packed:
        lost = max(1 - _KEPT * caches.l2 / (bytes_a + bytes_b + bytes_c), 0)
        memory_b += lost * bytes_b / nest.run * (_COLUMN_CYCLES if product.b_turned else _RUN_CYCLES)
    if product.b_packed and 1 < rows <= _FEW_PANELS and nest.blocks[0] == 1:
        memory_b = max(memory_b - hot * _HIDDEN, 0)
    uneven = _UNEVEN if product.k % block.kc else 1.0
    sliced = _SLICED * uneven if nest.passes > 1 else 1.0
    finishing = bytes_c / TILE_BYTES * _FINISH_CYCLES if product.finished and nest.passes > 1 else 0
    return sliced * (hot + packing + memory_a + memory_b) + finishing


def _waited(cycles: float, share: float) -> float:
    """Cycles that products wait for a tile, of those in which it arrives."""
    return _LOAD_CYCLES + (cycles - _LOAD_CYCLES) * share


def holds(product: Product, block: Blocking, caches: Caches) -> bool:
    """Whether L2 holds what has to stay there.

    Of a block of C that more than one pair of slices meets, that is the block, with its slices and the next ones. Of one pair it is the
    slice of B, where more than one block of C meets it.
    """
    _, _, first, _, sums = loads(product, block)
    if sums.count:
        return caches.level(sums.distance) != "beyond"
    return _Nest(product, block).blocks[0] == 1 or caches.level(first.distance) != "beyond"


@cache
def choose(
    product: Product, caches: Caches, tile: tuple[int, int], *, nc: int | None = None, kc: int | None = None
) -> Blocking:
    """The block with which a product takes the fewest cycles.

    Args:
        product: The product.
        caches: Of the core.
        tile: Rows and columns of the register tile.
        nc: Columns of a block, where they are given.
        kc: Depth of the slices, where it is given.
    """
    mr, nr = tile
    # Of one step the hot loop would be no loop, and sums in no tile registers between two.
    lengths = _ROW_LENGTHS if product.b_packed else (*_ROW_LENGTHS, _LONGEST)
    deep = [max(each // product.element, 2 * product.step) for each in lengths]
    depths = [kc] if kc else sorted({*_sizes(product.k, product.step, deep), *_even_slices(product, deep)})
    found = [
        Blocking(mr, nr, mc, columns, depth)
        for depth in depths
        for mc in _sizes(product.m, mr, [each * mr for each in _UNITS])
        for columns in ([nc] if nc else _sizes(product.n, nr, [each * nr for each in _UNITS]))
    ]
    fitting = [each for each in found if holds(product, each, caches)]
    return min(fitting or found, key=lambda each: cycles(product, each, caches))


def rows_read_at_once(product: Product, caches: Caches, rows: int) -> int:
    """`rows` of a register tile, or fewer where A may be read where it lies, from beyond L2: hardware foresees the lines of so many only.

    Measured on one core of a virtual Granite Rapids (2026-11-30), in time over the best, with 16, 32, 48, 64 and 96 rows: bf16 4608 x 16 x
    2048 1.00, 1.05, 1.62, 1.37, 2.3; 6144 x 8 x 2048 1.00, 1.01, 1.77, 1.57, 2.1; 768 x 16 x 6144 1.03, 1.00, 1.40, 2.3, 1.87; u8 by i8
    6144 x 8 x 4096 1.00, 1.01, 1.85, 1.36, 2.8; 6144 x 16 x 2048 1.00, 1.09, 1.13, 1.32, 1.65; of an A of some 3 MiB and less 1.0 to 1.1,
    whatever the rows.
    """
    far = product.m * product.k * product.element > caches.l2
    return min(rows, STREAMS) if product.a_fits and far else rows


def even_rows(product: Product, caches: Caches, block: Blocking, *, nc: int | None, kc: int) -> Blocking:
    """`block`, or one with fewer rows in a tile, which divide M, if that is faster: A may be read where it lies.

    Measured on one core of a virtual Granite Rapids (2026-11-30), times the speed of 32 rows, B packed: bf16 196 x 256 x 1024, of 28 rows,
    1.09, 784 x 128 x 512 1.19, 48 x 768 x 768, of 24, 1.10, 18 x 1024 x 1024 1.09; u8 by i8 1.21, 1.08, 1.10, 1.08.
    """
    if not product.a_fits or product.m % block.mr == 0:
        return block
    rows = [
        each for each in range(_LEAST_ROWS, block.mr) if product.m % each == 0 and each % ceil_div(each, AMX_ROWS) == 0
    ]
    found = [choose(product, caches, (each, block.nr), nc=nc, kc=kc) for each in rows]
    return min((block, *found), key=lambda each: cycles(product, each, caches))


def _even_slices(product: Product, limits: Iterable[int]) -> set[int]:
    """The largest depths of slices that divide K, up to the limits."""
    whole = [each for each in range(2 * product.step, product.k + 1, product.step) if product.k % each == 0]
    return {max(fitting) for limit in limits if (fitting := [each for each in whole if each <= limit])}


def _sizes(extent: int, unit: int, limits: Iterable[int]) -> list[int]:
    """The sizes, multiples of `unit`, that split an extent most evenly, each about as large as a limit at most."""
    return sorted({even(extent, each, unit) for each in limits})
