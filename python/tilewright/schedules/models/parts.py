# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Into how many parts K is split, each of which is summed by itself so that threads can share them: the model.

Threads that share rows and columns of a small C read A, or B, whole, each of them. By parts of K they read nothing twice, and meet once, to
add up what they summed. How many parts there are depends on the product and the target alone, so that a sum's order, and its bits,
are the same for any number of threads.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedules.models import threads
from tilewright.schedules.models.sizes import Blocking, even
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


def inside(spec: MatmulSpec, sizes: Blocking) -> tuple[MatmulSpec, Blocking]:
    """The product of one part, its sums and no more, and its sizes."""
    if sizes.parts == 1:
        return spec, sizes
    return replace(spec.plain_sums, k=int(spec.k) // sizes.parts), replace(sizes, parts=1)


def fitted(spec: MatmulSpec, sizes: Blocking) -> Blocking:
    """Sizes whose blocks are no deeper than a part."""
    return replace(sizes, kc=even(int(spec.k) // sizes.parts, sizes.kc))
