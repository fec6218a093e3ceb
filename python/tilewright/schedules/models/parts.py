# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of a product that threads take: blocks of C of their own, rows of a block that they share, or parts of K: the model.

Threads that share rows and columns of a small C read A, or B, whole, each of them. By parts of K, each summed by itself, they read nothing
twice, and meet once, to add up what they summed. How many of those there are depends on the product and the target alone, so that a sum's
order, and its bits, are the same for any number of threads.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import Dim, most
from tilewright.schedules.models import exchange, strips_of_a, threads, tiled
from tilewright.schedules.models.blocking import keeps_c
from tilewright.schedules.models.finishing import is_apart
from tilewright.schedules.models.sizes import Blocking, ceil_div, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MOST = 16
"""Parts at most."""
_SHARE = 1 / 2
"""Part of L2 that the parts' sums may take."""
_LONG, _LONG_A_PART = 8, 32
"""Times the larger one of M and N that K is at least where it is split, and that each part of K is where there are more than two. Measured
on Cascade Lake, f32, two threads, in GFLOP/s with one part, 2, 4 and 8: 64 x 64 x 1024 230, 220, 199, 186; 64 x 64 x 2048 200, 255, 217,
201; 64 x 64 x 4096 114, 220, 206, 194; 64 x 64 x 8192 108, 210, 208, 207; 128 x 128 x 1024 262, 232, 204, 174; 128 x 128 x 2048 224, 250,
223, 208; 128 x 128 x 4096 217, 234, 234, 216; 32 x 32 x 4096 119, 202, 207, 165; 16 x 16 x 8192 65, 131, 131, 131. On one thread two parts
take as long as one."""
_NARROW_SHARE = 1 / 8
"""Part of L2 that A and B of elements narrower than the sums are at least, of others all of it: their panels, which one thread packs for
all, move from core to core. There, u8 by i8, on one thread, and on two with one part, 2, 4: 128 x 128 x 1024 419, 348, 685, 665; 128 x 128
x 2048 417, 340, 749, 731; 64 x 256 x 2048 405, 428, 721, 654; 64 x 64 x 4096 429, 580, 723, 679. Of a shorter K one thread loses: 256 x
256 x 1024 484 with one part, 431 with two."""
_FEW_STRIPS = 2
"""Register tiles of rows for each thread, of which fewer are few."""
_FEW_PANELS = 4
"""The same of columns, of a block that has all rows."""
_TRIED = 3
"""Numbers of blocks that are tried, until threads have as many each."""


def can_split(spec: MatmulSpec) -> bool:
    """Whether K can be split: extents are known, one product is computed of A and B as they are, and its sums may be in any order.

    Not of two operands without a sign: upstream's `specialize` makes a ``linalg.matmul`` of them that extends elements by a sign.
    """
    if (spec.a_type.kind, spec.b_type.kind) == ("uint", "uint"):
        return False
    plain = not (spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows or spec.split)
    return plain and not (spec.dynamic or spec.batch or spec.b_packed or spec.deterministic)


def divides(spec: MatmulSpec, target: Target, parts: int) -> bool:
    """Whether K can be split into so many equal parts of whole steps."""
    step, k = target.dot(*spec.multiplied).step, int(spec.k)
    return k > 0 and k % (parts * step) == 0


def options(spec: MatmulSpec, target: Target, most: int = _MOST) -> list[int]:
    """Into how many equal parts of whole steps K can be split, one among them."""
    if not can_split(spec):
        return [1]
    return [1, *(each for each in range(2, most + 1) if divides(spec, target, each))]


def count(spec: MatmulSpec, target: Target) -> int:
    """How many parts pay: of those that the caches hold the sums of, as many as most numbers of threads divide."""
    if not can_split(spec):
        return 1
    m, n, k = int(spec.m), int(spec.n), int(spec.k)
    longer = max(m, n, 1)
    read = m * k * spec.a_type.bytes + k * n * spec.b_type.bytes
    if k < _LONG * longer or read <= target.l2.bytes * (_NARROW_SHARE if spec.widens else 1):
        return 1
    held = int(target.l2.bytes * _SHARE) // max(m * n * spec.acc_type.bytes, 1)
    shared = int(threads.cycles(spec, target) / threads.LEAST_CYCLES)
    most = min(_MOST, held, shared, max(2, k // (_LONG_A_PART * longer)))
    return max(options(spec, target, most), key=lambda each: (each & -each, each))


def sharing(spec: MatmulSpec, parts: int, count: int) -> int:
    """How many of `count` threads share the loops of one product: one, where they take entries of a batch or parts of K instead."""
    return 1 if threads.take_matrices(spec, count) or threads.take_parts(parts, count) else count


def can_exchange(spec: MatmulSpec, target: Target) -> bool:
    """Whether the transpose can be computed in place of a product."""
    return exchange.may(spec, target)


def exchanges(spec: MatmulSpec, target: Target) -> bool:
    """Whether it is, as that is faster."""
    return can_exchange(spec, target) and tiled.exchange_pays(spec, target)


def inside(spec: MatmulSpec, sizes: Blocking) -> tuple[MatmulSpec, Blocking]:
    """The product of one part, its sums and no more, or the transpose that is computed in place of a product, and its sizes."""
    if sizes.exchanged:
        return exchange.turned(spec), replace(sizes, exchanged=0)
    if sizes.parts == 1:
        return spec, sizes
    return replace(spec.plain_sums, k=int(spec.k) // sizes.parts), replace(sizes, parts=1)


def fitted(spec: MatmulSpec, sizes: Blocking) -> Blocking:
    """Sizes whose blocks are no deeper than a part."""
    return replace(sizes, kc=even(int(spec.k) // sizes.parts, sizes.kc))


def for_threads(sizes: Blocking, spec: MatmulSpec, target: Target, count: int) -> Blocking:
    """The sizes for `count` threads that share one block of packed A: it has `count` times the rows, evened out.

    So there are as few parallel regions for each thread's work as on one. At 1024³ in f32, two threads took 1/1.99 of the
    time of one with 516 rows, 1/1.98 with 258, 1/1.97 with 132, what one thread has, and 1/1.96 with 66. Nothing else
    changes, so each element of C is the same sum in the same order as on one thread: the same bits.
    """
    if count == 1:
        return sizes
    if strips_of_a.are(sizes, most(spec.m)) or strips_of_a.pay_shared(sizes, spec, count):
        return strips_of_a.for_threads(sizes, spec, count)
    if own := _own_blocks(sizes, spec, target, count):
        return replace(own, threads=count)
    mc = sizes.mc if sizes.mc >= spec.m else even(spec.m, sizes.mc * count, sizes.mr)
    return replace(sizes, mc=mc, threads=count)


def has_own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target) -> bool:
    """Whether each of several threads that the sizes are for takes blocks of C of its own through all of K, with scratch of its own."""
    count = sizes.threads
    return count > 1 and _wants_own_blocks(sizes, spec, target, count) and _are_enough(sizes, spec, count)


def _are_enough(sizes: Blocking, spec: MatmulSpec, count: int) -> bool:
    """Whether there are blocks side by side, or below one another, for all threads: as many for each, where nothing else fixes them."""
    across, down = ceil_div(most(spec.n), sizes.nc), ceil_div(most(spec.m), sizes.mc)
    # Better some more for one thread than all shared, where a packed B's format or dynamic rows say how many.
    if across > 1:
        return across >= count if spec.b_packed or spec.dynamic else threads.take_parts(across, count)
    return threads.take_parts(down, count)


def _wants_own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target, count: int) -> bool:
    """Whether to share a block takes threads as long as to multiply it: instructions are fast, and slices of K or rows of A few.

    Measured on two cores of a virtual Granite Rapids (2026-11-30), in GFLOP/s on one thread, on two that share each block, and with blocks
    of their own: bf16 in slices 192 x 2112 x 1536 638, 718, 1217, 385 x 381 x 3589 966, 1063, 1668, B packed before 59 x 1260 x 3072 746,
    661, 1544; u8 by i8 102 x 1664 x 2048 934, 1080, 2038. Few rows by all of K 16 x 960 x 960 306, 147, 642, 32 x 2304 x 768 441, 321, 863;
    more, 128 x 768 x 768 1187, 2272, 2146. All rows by few columns and all of K, B transposed, two threads over one, sharing and with
    blocks of their own: 110 x 1216 x 1792 0.74 and 1.20, 128 x 2560 x 1113 0.77 and 1.47.
    """
    if isinstance(spec.k, Dim) or not target.dot(*spec.multiplied).is_tile:
        return False
    if sizes.kc < spec.k:
        return keeps_c(spec, target) or is_apart(spec, sizes)
    alone = spec.products == 1 and not (spec.has_rows or spec.prologue_a or spec.prologue_b or spec.batch)
    narrow = sizes.mc >= most(spec.m) and ceil_div(sizes.nc, sizes.nr) < _FEW_PANELS * count
    return alone and (narrow or ceil_div(most(spec.m), sizes.mr) < _FEW_STRIPS * count)


def _own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target, count: int) -> Blocking | None:
    """Sizes with about as many blocks of C for each thread, side by side or, where these are too few, one below the other."""
    if spec.dynamic or not _wants_own_blocks(sizes, spec, target, count):
        return None
    wide = () if spec.b_packed else _shared_out(spec.n, sizes.nc, sizes.nr, count)
    tall = () if sizes.nc < spec.n else _shared_out(spec.m, sizes.mc, sizes.mr, count)
    options = (sizes, *(replace(sizes, nc=nc) for nc in wide if nc < spec.n), *(replace(sizes, mc=mc) for mc in tall))
    return next((each for each in options if _are_enough(each, spec, count)), None)


def _shared_out(extent: int, size: int, unit: int, count: int) -> tuple[int, ...]:
    """Sizes of blocks, of so many and fewer, with which threads may have as many each: whole units may make them one less."""
    blocks = ceil_div(ceil_div(extent, size), count) * count
    return tuple(even(extent, ceil_div(extent, blocks + more * count), unit) for more in range(_TRIED))
