# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of B of four bits that are looked up, with all that is done to them, in a table of sixteen.

For the elements of a column that share a scale, a prologue has only sixteen results. They are computed once for a block of
elements, and one instruction then takes each element to what is multiplied.
"""

from __future__ import annotations

from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.lookups import CODE_BITS, Lookup, lookup

STREAMS = 2
"""Columns of B that are read at once, far apart. Measured on Zen 4, N x K = 14336 x 4096 in i4 by one row of bf16, in GB/s of 32 that a
loop of loads reads: one column 21, two neighbors 9, two half of N apart 27, four 25, eight 23 (without prefetching, in C)."""


def table(spec: MatmulSpec, target: Target) -> Lookup | None:
    """How elements of B are looked up; None where they are not.

    B is stored transposed, in whole blocks along K, and each block has one number of each operand of its prologue.
    """
    if spec.b_stored.bits != CODE_BITS or not spec.b_transposed or spec.batch or spec.dynamic or not spec.k:
        return None
    found = lookup(target, spec.b_type.bits)
    if found is None or spec.k % found.block or spec.acc_type.kind != "float":
        return None
    along_k = (each for each in spec.chain_b.operands if {"k", "g"} & set(each.axes))
    return found if all(each.group and each.group % found.block == 0 for each in along_k) else None
