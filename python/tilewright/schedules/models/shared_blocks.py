# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of blocks for several threads: those that share a block of packed A, or have blocks of C of their own."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import Dim, most
from tilewright.schedules.models import strips_of_a
from tilewright.schedules.models.blocking import Blocking, ceil_div, even, keeps_c
from tilewright.schedules.models.finishing import is_apart
from tilewright.schedules.models.threads import take_parts
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def for_threads(sizes: Blocking, spec: MatmulSpec, target: Target, threads: int) -> Blocking:
    """The sizes for `threads` threads that share one block of packed A: it has `threads` times the rows, evened out.

    So there are as few parallel regions for each thread's work as on one. At 1024³ in f32, two threads took 1/1.99 of the
    time of one with 516 rows, 1/1.98 with 258, 1/1.97 with 132, what one thread has, and 1/1.96 with 66. Nothing else
    changes, so each element of C is the same sum in the same order as on one thread: the same bits.
    """
    if threads == 1:
        return sizes
    if strips_of_a.are(sizes, most(spec.m)) or strips_of_a.pay_shared(sizes, spec, threads):
        return strips_of_a.for_threads(sizes, spec, threads)
    if own := _own_blocks(sizes, spec, target, threads):
        return replace(own, threads=threads)
    mc = sizes.mc if sizes.mc >= spec.m else even(spec.m, sizes.mc * threads, sizes.mr)
    return replace(sizes, mc=mc, threads=threads)


def has_own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target) -> bool:
    """Whether each of several threads that the sizes are for takes blocks of C of its own through all of K, with scratch of its own."""
    return sizes.threads > 1 and _wants_own_blocks(sizes, spec, target)


def _wants_own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target) -> bool:
    """Whether blocks of C are taken through slices of K, by instructions so fast that to share a slice takes as long as to multiply it.

    Measured on two cores of a virtual Granite Rapids (2026-11-30), in GFLOP/s on one thread, on two that share each slice, and with blocks
    of their own: bf16 192 x 2112 x 1536 638, 718, 1217, 385 x 381 x 3589 966, 1063, 1668, B packed before 59 x 1260 x 3072 746, 661, 1544;
    u8 by i8 102 x 1664 x 2048 934, 1080, 2038. Where all of K is one slice, 1024 x 1024 x 1024 1205, 2336, 1924.
    """
    if isinstance(spec.k, Dim) or sizes.kc >= spec.k or not target.dot(*spec.multiplied).is_tile:
        return False
    return keeps_c(spec, target) or is_apart(spec, sizes)


def _own_blocks(sizes: Blocking, spec: MatmulSpec, target: Target, threads: int) -> Blocking | None:
    """Sizes with about as many blocks of C for each thread, side by side or, where these are too few, one below the other."""
    if spec.dynamic or not _wants_own_blocks(sizes, spec, target):
        return None
    across, down = ceil_div(spec.n, sizes.nc), ceil_div(spec.m, sizes.mc)
    nc = sizes.nc if spec.b_packed else even(spec.n, ceil_div(spec.n, ceil_div(across, threads) * threads), sizes.nr)
    if take_parts(ceil_div(spec.n, nc), threads):
        return replace(sizes, nc=nc)
    mc = even(spec.m, ceil_div(spec.m, ceil_div(down, threads) * threads), sizes.mr)
    if across == 1 and take_parts(ceil_div(spec.m, mc), threads):
        return replace(sizes, mc=mc)
    return None
