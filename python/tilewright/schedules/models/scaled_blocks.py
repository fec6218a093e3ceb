# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When sums of codes are scaled, and not each element (strategy `scaled_sums`), and in which blocks: the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.errors import ScheduleError
from tilewright.precision import ROUNDED
from tilewright.schedules.models import codes
from tilewright.schedules.models.blocking import Blocking, ceil_div, even
from tilewright.schedules.models.code_tables import STREAMS
from tilewright.schedules.models.register_tiles import MANY_REGISTERS
from tilewright.schedules.models.space import Axis, Options
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.code_dots import DEPTH, CodeDot, code_dot
from tilewright.targets.lookups import byte_lookup, lookup

if TYPE_CHECKING:
    from tilewright.schedules.decisions import ScaledSums

WORD_BITS = 32
"""Codes of four bits are taken from words of the width of a sum: eight registers of sums are of one register of words."""
BYTE_VECTORS = 4
"""Registers of sums beside each other, of codes that are bytes: a cache line of them with vectors of 512 bits."""
_MANY_STREAMS = 4
"""Columns that are read at once, far apart, where they lie along K, of bytes by up to so many rows; for four bits `STREAMS`, and this too
with few rows and registers of 512 bits. Measured on Zen 4 by one and two rows, two and four columns at once, 4096 x 4096, 11008 x 2048
and 2048 x 8192: four are 1.03 to 1.15 times as fast in bf16, in f32 1.02 to 1.07 with one row."""
_TABLES_PER_GROUP = 4
"""Registers of codes in a group, from which on that pays where zero points choose the group's table: with one or two of them, 0.91."""
_MOST_ROWS_OF_CODES = 6
"""Rows of A that codes of four bits along K meet at once, at most: with eight, sums are in memory. On Zen 4 16 rows in f32 and bf16 take
0.8 to 0.9 of the time so."""
_ROWS = 8
"""Rows of B that are read side by side; every group is a multiple of them. Measured on Zen 4, i4 in layout nn by one row of bf16,
4, 8, 16 and 32 rows, 11008 x 4096: 12.7, 17.1, 18.3 and 12.5 GB/s, 4096 x 4096: 11.1, 14.1, 13.6 and 11.1 (while others used the
machine, which then read 20)."""
_MOST_ROWS = 64
"""Rows of A at most."""
_MOST_ROUNDED: Mapping[int, int] = MappingProxyType({4: 512, 8: 128})
"""The same where A is rounded to integers, by the bits of a code. Measured on Zen 3 by f32 in groups of 32, packed and so, in ms:
1024 x 2048, i4, 64, 128, 256 and 512 rows 3.9 and 1.8, 7.5 and 3.8, 12.3 and 7.7, 23.7 and 15.9; 1024 x 4096, i8, 128 and 512 rows
15.3 and 12.1, 49.1 and 49.7."""
_ROWS_SHARE = 4
"""Rows of A that a code in a register is multiplied by, at most: one for so many registers. Their sums and those of a group leave half
of them."""
_MOST_PAID: Mapping[tuple[bool, int], int] = MappingProxyType(
    {(True, 4): 8, (True, 8): 4, (False, 4): 8, (False, 8): 8}
)
"""Rows of A up to which it pays, by whether B is stored transposed and its bits. Measured on Zen 4, 4096 x 4096 with groups of 128 by
bf16, in GB/s, and the better one of the other strategies, 2, 4, 8 and 16 rows: nt i4 13 and 13, 8.0 and 7.4, 5.2 and 4.4, 1.5 and 2.7;
nt i8 15 and 12, 10.5 and 10.7, 3.9 and 5.5, 1.5 and 2.8; nn i4 15 and 3.6, 8.7 and 3.3, 4.5 and 2.4, 2.2 and 2.0; nn i8 16 and 11,
10 and 9.2, 5.4 and 3.8 (others used the machine, which then multiplies half as much). Code for more rows is long."""
_MOST_PAID_OF_FRACTIONS = 32
"""The same of codes of four bits stored along K less zero points that are floats, which are not transposed. Measured on Zen 5 by f32,
4096 x 4096 in groups of 32, 9, 16 and 32 rows, in ms: 2.1, 3.5 and 5.7, inner products 6.7, 9.6 and 17; 64 rows, while others used the
machine, 92, and packed 69."""
_SUMS_SHARE = 1 / 4
"""Part of L2 for the sums of a strip."""
_LEAST_BY_COLUMNS: Mapping[int, int] = MappingProxyType({4: 3, 8: 5})
"""Rows of A from which codes along K are transposed, so that vectors have a column in each lane, by the bits of a code. Measured on
Zen 5 with 256 x 4096 weights, which stay in L2, in microseconds with vectors along K and of columns: 2, 4 and 8 rows, i4 in groups of 128
by bf16 13 and 16, 25 and 24, 48 and 43; 2, 4, 8 and 16 rows, u4 in groups of 32 with zero points 35 and 29, 51 and 37, 113 and 57, 294 and
109; i8 in groups of 128, 3, 4, 5, 8 and 16 rows 37 and 42, 44 and 44, 71 and 61, 86 and 58, 179 and 96. On Zen 3, 128 x 4096
in groups of 32 by f32, with vectors along K or inner products, and of columns: i4, 3, 4, 8, 16 and 32 rows 62 and 58, 82 and 68, 209 and
131, 510 and 262, 1067 and 518; i8, 8, 16 and 32 rows 179 and 138, 425 and 257, 873 and 504."""
_MOST_BY_COLUMNS: Mapping[int, int] = MappingProxyType({4: 32, 8: 24})
"""Rows of A up to which codes of so many bits are transposed to be multiplied as floats where bytes are looked up, and not wider words;
with more, B is packed. Measured on Zen 3 by f32 in groups of 32, transposed and packed, in microseconds: 1024 x 2048, i4, 16, 32 and 64
rows 1016 and 1204, 1996 and 2124, 4208 and 3951; i8 1063 and 1101, 1990 and 1858, 4076 and 3843; 128 x 4096, i4, 16, 32 and 64 rows 286
and 328, 518 and 482, 1010 and 849. With A rounded to integers: 489, 880 and 1879; 760, 1407 and 2939; 167, 280 and 557."""
_LEAST_IN_PASSES: Mapping[tuple[int, int], int] = MappingProxyType({(4, 16): 25, (4, 32): 25, (8, 16): 5, (8, 32): 7})
"""The same by the bits of a code and of what it is multiplied as, where a vector goes through units of half its width: shuffles take
twice as long. Measured on Zen 4, 4096 x 4096 and 1024 x 2048, times of columns over those of vectors along K: i4 in groups of 32 by f32,
3, 6, 12, 24 and 48 rows 1.32 to 1.44, 1.07 to 1.25, 1.1 to 1.2, 1.06 to 1.16 and 1.07, by bf16 1.32 to 1.53, 1.2, 1.03 to 1.2 and 1.1 to
1.2, in groups of 128 1.3, 1.06, 1.06, 1.0 and 0.95; i8 by f32 5, 6 and 8 rows 1.02 to 1.2, 0.97 to 1.19 and 0.91 to 1.14, by bf16 5 and 6
rows 0.9 to 1.0 and 0.8 to 0.9. Where zero points choose a table for each register of codes it is as everywhere: u4 in groups of 32 by
bf16, 4 rows 0.7 to 0.9."""
_VECTORS = 2
"""Vectors of columns beside each other: each element of A is taken to all lanes once for both."""
_CHUNK_BYTES = 8192
"""Bytes of transposed codes, which stay in L1 beside what is read of A."""


def columns(spec: MatmulSpec, target: Target) -> int:
    """Columns of a tile: those of a register of codes, or of some registers of bytes."""
    per_lane = WORD_BITS // spec.b_stored.bits if spec.b_stored.bits < 8 else BYTE_VECTORS
    return target.lanes(spec.acc_type) * per_lane


def sums_at_once(target: Target, rows: int) -> int:
    """Registers of sums for each of some rows of A that codes are multiplied by at once: the others are for codes and constants.

    Where registers are few, constants leave no room for those of a whole word. 4096 x 4096 in i4 stored row by row by one row of f32, in
    ms on Zen 3: 1.5 in two halves, and 1.9 at once; 2 to 8 rows alike.
    """
    return max(1, target.vector_registers // 2 // max(rows, 2 if target.vector_registers < MANY_REGISTERS else 1))


def fits(spec: MatmulSpec) -> bool:
    """Whether the strategy computes `spec`: few rows by codes that are stored row by row, and each element of C by itself."""
    alone = spec.products == 1 and not (spec.has_rows or spec.dynamic or spec.batch or spec.b_packed or spec.prologue_a)
    floats = spec.a_stored == spec.a_type and spec.a_type.kind == "float" and spec.acc == "f32"
    most = _MOST_ROUNDED.get(spec.b_stored.bits, _MOST_ROWS) if spec.precision == ROUNDED else _MOST_ROWS
    few = alone and not spec.a_transposed and floats and 0 < spec.m <= most and spec.n > 0 and spec.k > 0
    found = codes.of(spec) if few else None
    return found is not None and (_whole(found) if spec.b_transposed else not found.has_fractions)


def code_dot_of(spec: MatmulSpec, target: Target) -> CodeDot | None:
    """The instruction that multiplies codes of `spec` by A rounded to integers; None where there is none."""
    return code_dot(target, target.lanes(spec.acc_type), spec.b_stored.bits)


def rounds(spec: MatmulSpec, target: Target) -> bool:
    """Whether A is rounded to integers: where that is asked for, and bytes are multiplied along K."""
    found = codes.of(spec)
    if spec.precision != ROUNDED or not spec.b_transposed or found is None or not fits(spec):
        return False
    dot = code_dot_of(spec, target)
    least = max(target.lanes(spec.acc_type), DEPTH * 8 // spec.b_stored.bits)
    return dot is not None and (found.group or spec.k) >= least


def _whole(found: codes.Codes) -> bool:
    """Whether groups along K are whole blocks of codes, or blocks whole groups."""
    return not found.group or found.group & (found.group - 1) == 0


def require(spec: MatmulSpec, target: Target, sizes: Blocking | ScaledSums) -> None:
    """Checks that the strategy computes `spec`, in blocks of these sizes.

    Raises:
        ScheduleError: It does not.
    """
    found = codes.of(spec)
    if found is None or not fits(spec) or (spec.m > _MOST_ROWS and not rounds(spec, target)):
        raise ScheduleError(
            f"strategy scaled_sums does not compute {spec}",
            where="scaled_sums",
            expected=f"up to {_MOST_ROWS} rows of floats by integers of four or eight bits that a prologue dequantizes",
            remedy="Let the strategy be chosen",
        )
    if spec.b_transposed and in_columns(sizes, target):
        lanes, unit, group = target.lanes(spec.acc_type), codes_in_line(spec), found.group or spec.k
        expected = f"an nr of whole {lanes}, an nc of whole nr, and a kc of whole {unit} that divides a group of {group} or is some of them"
        whole = not (sizes.nr % lanes or sizes.nc % sizes.nr or sizes.kc % unit)
        whole = whole and (not found.has_fractions or rounds(spec, target))
        fit = whole and _fits_groups(sizes.kc, group, spec.k)
    elif spec.b_transposed:
        expected, fit = f"an nr that divides {spec.n}", spec.n % sizes.nr == 0
    else:
        nr, unit = columns(spec, target), found.group or _ROWS
        expected = f"an nr of {nr}, an nc that is a multiple of it, and an even kc that divides {unit}"
        fit = sizes.nr == nr and sizes.nc % nr == 0 and sizes.kc % 2 == 0 and unit % sizes.kc == 0
    if not fit:
        raise ScheduleError(f"sizes {sizes}", where="scaled_sums", expected=expected, remedy="Leave them out")


def pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether it beats the dequantizing of each element: few rows, and codes that fill half a tile at least."""
    along, across = (spec.k, spec.n) if spec.b_transposed else (spec.n, spec.k)
    enough = 2 * along >= columns(spec, target) and across > 1
    if _by_columns(spec, target):
        return True
    return enough and fits(spec) and spec.m <= _most_paid(spec, target)


def _most_paid(spec: MatmulSpec, target: Target) -> int:
    """Rows of A up to which it pays."""
    found, bits = codes.of(spec), spec.b_stored.bits
    if found is not None and found.has_fractions and bits == 4 and lookup(target, WORD_BITS) is not None:
        return _MOST_PAID_OF_FRACTIONS
    along_k = _least_by_columns(spec, target) - 1 if spec.b_transposed and _takes_columns(target) else 0
    return max(_MOST_PAID[spec.b_transposed, bits], along_k)


def blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes: some rows of A, tiles of whole registers of codes, and strips of which the sums stay in L2."""
    rows, mr = max(spec.m, 1), even(spec.m, _rows_at_once(target))
    if _by_columns(spec, target):
        return _blocking_by_columns(spec, target)
    if spec.b_transposed:
        mr = min(mr, even(spec.m, _MOST_ROWS_OF_CODES)) if spec.b_stored.bits == 4 else mr
        streams = _MANY_STREAMS if _pays_in_streams(spec, target, mr) else STREAMS
        nr = max(each for each in range(1, streams + 1) if spec.n % each == 0)
        return Blocking(mr=mr, nr=nr, mc=rows, nc=max(spec.n, 1), kc=max(spec.k, 1))
    nr = columns(spec, target)
    nc = even(spec.n, int(target.l2.bytes * _SUMS_SHARE) // (rows * spec.acc_type.bytes), nr)
    return Blocking(mr=mr, nr=nr, mc=rows, nc=nc, kc=_ROWS)


def _pays_in_streams(spec: MatmulSpec, target: Target, rows: int) -> bool:
    """Whether some rows meet `_MANY_STREAMS` columns at once."""
    if spec.b_stored.bits == 8:
        return rows <= _MANY_STREAMS
    return (
        target.vector_bits == 512
        and rows * spec.b_type.bits <= 32
        and not _changes_tables(spec, target, _TABLES_PER_GROUP - 1)
    )


def _changes_tables(spec: MatmulSpec, target: Target, registers: int) -> bool:
    """Whether zero points choose a table for each few registers of codes along K."""
    found = codes.of(spec)
    if found is None or found.zero_point is None:
        return False
    return 0 < found.group <= registers * (target.vector_bits // spec.b_type.bits)


def _rows_at_once(target: Target) -> int:
    return target.vector_registers // _ROWS_SHARE


def codes_in_line(spec: MatmulSpec) -> int:
    """Codes of a column in a cache line."""
    return 64 * 8 // spec.b_stored.bits


def _takes_columns(target: Target) -> bool:
    """Whether transposing codes in registers pays: measured where bytes or words are looked up."""
    return byte_lookup(target) is not None or lookup(target, WORD_BITS) is not None


def in_columns(sizes: Blocking | ScaledSums, target: Target) -> bool:
    """Whether sizes for codes along K are of vectors with a column in each lane; otherwise vectors run along K, in fewer columns."""
    return _takes_columns(target) and sizes.nr > _MANY_STREAMS


def _by_columns(spec: MatmulSpec, target: Target) -> bool:
    """Whether codes that lie along K are better transposed."""
    found = codes.of(spec)
    if found is None or not fits(spec) or (found.has_fractions and not rounds(spec, target)):
        return False
    if not spec.b_transposed or not _takes_columns(target):
        return False
    bits = spec.b_stored.bits
    if not rounds(spec, target) and lookup(target, WORD_BITS) is None and spec.m > _MOST_BY_COLUMNS[bits]:
        return False
    enough = spec.m >= _least_by_columns(spec, target) and spec.n >= target.lanes(spec.acc_type)
    return enough and _depth(spec) > 0


def _least_by_columns(spec: MatmulSpec, target: Target) -> int:
    """Rows of A from which codes along K are transposed."""
    bits = spec.b_stored.bits
    if target.passes == 1 or rounds(spec, target) or _changes_tables(spec, target, 1):
        return _LEAST_BY_COLUMNS[bits]
    return _LEAST_IN_PASSES[bits, spec.b_type.bits]


def _fits_groups(kc: int, group: int, k: int) -> bool:
    """Whether chunks of `kc` rows are whole groups, or groups whole chunks."""
    return group >= k or kc % group == 0 or group % kc == 0


def _depth(spec: MatmulSpec, nr: int = 1) -> int:
    """Rows of a chunk of which the transposed codes of `nr` columns have `_CHUNK_BYTES` at most; 0 where none fits the groups."""
    found = codes.of(spec)
    assert found is not None
    unit, group = codes_in_line(spec), found.group or spec.k
    most = max(1, _CHUNK_BYTES * 8 // spec.b_stored.bits // nr // unit)
    return next((n * unit for n in range(most, 0, -1) if _fits_groups(n * unit, group, spec.k)), 0)


def _blocking_by_columns(spec: MatmulSpec, target: Target) -> Blocking:
    lanes, mr = target.lanes(spec.acc_type), even(spec.m, _rows_at_once(target))
    nr = min(_VECTORS, ceil_div(spec.n, lanes)) * lanes
    return Blocking(mr=mr, nr=nr, mc=spec.m, nc=ceil_div(spec.n, nr) * nr, kc=_depth(spec, nr) or _depth(spec))


def in_strips(sizes: Blocking, spec: MatmulSpec, target: Target, threads: int) -> Blocking:
    """The sizes for threads that each go through columns of their own; the order of no sum changes."""
    if threads == 1 or (spec.b_transposed and sizes.nr <= _MANY_STREAMS):
        return sizes
    return replace(sizes, nc=min(sizes.nc, even(spec.n, ceil_div(spec.n, threads), sizes.nr)))


_DEPTHS = (2, 4, 8, 16, 32, 64)
"""Rows of codes that are read side by side where these lie row by row."""
_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Times the model's columns of a strip, and depth of a chunk, that are offered."""


def _axis(
    name: str, options: Callable[[MatmulSpec, Target, Blocking], Iterable[int]]
) -> Axis[MatmulSpec, Target, Blocking]:
    """An axis of those of some options that the strategy computes, in the form of the present sizes."""

    def found(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
        by_columns = in_columns(sizes, target)
        made = (
            (each, _whole_strips(spec, target, sizes.replaced({name: each}))) for each in options(spec, target, sizes)
        )
        return [(each,) for each, it in made if in_columns(it, target) == by_columns and _computes(spec, target, it)]

    return Axis((name,), found, _whole_strips)


def _computes(spec: MatmulSpec, target: Target, sizes: Blocking) -> bool:
    try:
        require(spec, target, sizes)
    except ScheduleError:
        return False
    return True


def _whole_strips(spec: MatmulSpec, target: Target, sizes: Blocking) -> Blocking:
    """Strips of whole tiles, where vectors have a column in each lane."""
    if spec.b_transposed and not in_columns(sizes, target):
        return sizes
    return replace(sizes, nc=ceil_div(sizes.nc, sizes.nr) * sizes.nr)


def _rows(spec: MatmulSpec, target: Target, sizes: Blocking) -> Iterable[int]:
    return {even(spec.m, each) for each in range(1, _rows_at_once(target) + 1)}


def _tile_columns(spec: MatmulSpec, target: Target, sizes: Blocking) -> Iterable[int]:
    if in_columns(sizes, target):
        return [each * target.lanes(spec.acc_type) for each in range(1, 2 * _VECTORS + 1)]
    return range(1, _MANY_STREAMS + 1)


def _depths(spec: MatmulSpec, target: Target, sizes: Blocking) -> Iterable[int]:
    if not spec.b_transposed:
        return _DEPTHS
    unit = codes_in_line(spec)
    return [max(int(sizes.kc * share) // unit, 1) * unit for share in _SHARES] if in_columns(sizes, target) else ()


def _strips(spec: MatmulSpec, target: Target, sizes: Blocking) -> Iterable[int]:
    if spec.b_transposed:
        return ()
    return [even(spec.n, max(int(sizes.nc * share), 1), sizes.nr) for share in _SHARES]


AXES = (_axis("mr", _rows), _axis("nr", _tile_columns), _axis("kc", _depths), _axis("nc", _strips))
"""The axes of `scaled_sums`."""
