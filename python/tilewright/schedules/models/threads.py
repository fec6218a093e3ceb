# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many threads a product gets of those that were asked for, and what they share: the model.

It decides while compiling. A call uses fewer threads when OpenMP has fewer to give: see `tilewright.lowering.passes.parallel`.
"""

from __future__ import annotations

from math import prod

from tilewright.errors import SpecError
from tilewright.schedules.models.sizes import ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

MOST = 1024
"""Threads that may be asked for: more than any machine that the targets describe has cores."""

LEAST_CYCLES = 40_000
"""Cycles, some 10 µs, for each thread at least. On two cores of a Zen 4 a parallel region costs 0.4 µs when the other thread
still waits for work in a loop, and 30 µs when it sleeps and has to be woken. Two threads took 1/1.9 of the time of one at 160³
(72 µs on one); after a quarter of a second without a call 125 µs and not 96."""
BYTES_PER_CYCLE = 8
"""What a core streams from memory, at most: the time of products that read much and compute little."""
_UNEVEN = 1.15
"""Times its share of a batch, or of K, that one thread may get: less than parallel regions in each product cost."""
_SMALL = 1 << 20
"""Multiply-adds, 10 µs of one core, below which threads gain little from sharing one product."""
_TILES, _TILES_PACKED = 4, 2
"""Times the rate of vectors at which tile registers (AMX) count, B being packed by the call or before: what threads then share is soon
done. Measured on two cores of a virtual Granite Rapids, one thread and two, in microseconds: u8 by i8 192 x 256 x 384 17 and 22, 320 x 320
x 256 25 and 25, 384 x 512 x 384 56 and 53; bf16 192 x 128 x 320 20 and 25, 192 x 512 x 512 77 and 60; B packed before 128 x 256 x 256 8
and 10, 256 x 256 x 256 16 and 10."""
_NARROW = 32
"""Bits of an element of which a vector multiply-add does one a lane; of narrower ones a dot product does several."""


def check(threads: object, where: str) -> int:
    """`threads`, if it is a number of threads.

    Raises:
        SpecError: It is no int from 1 to `MOST`.
    """
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST:
        raise SpecError(f"threads is {threads!r}", where=where, expected=f"an int from 1 to {MOST}")
    return threads


def products_per_cycle(spec: MatmulSpec, target: Target) -> int:
    """Multiply-adds of elements in a cycle of one core at its peak; in tile registers, those at which threads begin to pay."""
    narrowest = min(spec.a_type.bits, spec.b_type.bits)
    rate = target.lanes(spec.acc_type) * target.fma_per_cycle * max(1, _NARROW // narrowest)
    if not target.dot(*spec.multiplied).is_tile:
        return rate
    return rate * (_TILES_PACKED if spec.b_packed else _TILES)


def cycles(spec: MatmulSpec, target: Target) -> float:
    """About how many cycles the product takes one core at its peak, or at the speed of its memory if that is less."""
    acc = spec.acc_type
    read = prod(spec.a_shape) * spec.a_stored.bits + spec.products * prod(spec.b_shape) * spec.b_stored.bits
    elements = read + spec.matrices * spec.m * spec.n * acc.bits
    return max(spec.flops / 2 / products_per_cycle(spec, target), elements / 8 / BYTES_PER_CYCLE)


def take_matrices(spec: MatmulSpec, threads: int) -> bool:
    """Whether threads share a batch by its entries, and not each product: where there are enough for all, or small ones."""
    if threads == 1 or spec.dynamic:
        return False
    if spec.open:  # Of products that are not small the entries may be fewer than threads.
        return spec.m * spec.n * spec.k < _SMALL
    if spec.matrices < threads:
        return False
    is_even = ceil_div(spec.matrices, threads) * threads <= spec.matrices * _UNEVEN
    return is_even or spec.flops / 2 < _SMALL * spec.matrices


def take_parts(parts: int, threads: int) -> bool:
    """Whether threads share the parts that K is split into, and not the product of each: where there are enough for all."""
    return parts > 1 and ceil_div(parts, threads) * threads <= parts * _UNEVEN


def divided(spec: MatmulSpec) -> str:
    """Along which of the dynamic m and n of C threads can share a call: not where a part would be none of the kernel's calls."""
    extents = {name: getattr(spec, name) for name in "mn" if name in spec.dynamic}
    return "".join(name for name, extent in extents.items() if extent.min <= extent.multiple)


def used(spec: MatmulSpec, target: Target, threads: int) -> int:
    """Of `threads` threads, as many as have `LEAST_CYCLES` of work each; a small product stays on one."""
    return max(1, min(threads, int(cycles(spec, target) / LEAST_CYCLES)))
