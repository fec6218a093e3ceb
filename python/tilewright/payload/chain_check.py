# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that specs form a chain, without MLIR, for code that only calls it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tilewright.errors import SpecError
from tilewright.spec import MatmulSpec


def check(stages: Sequence[MatmulSpec]) -> None:
    """Checks that each product can take the result of the one before as its A.

    Raises:
        SpecError: One cannot, or there are less than two, or one has a batch, beta 1, or an extent that is not known.
    """
    if len(stages) < 2 or not all(isinstance(each, MatmulSpec) for each in stages):
        raise SpecError(f"a chain of {stages!r}", where="compile_chain", expected="two MatmulSpecs or more")
    for number, spec in enumerate(stages):
        known = all(isinstance(each, int) for each in (spec.m, spec.n, spec.k))
        more = spec.prologue_a or spec.prologue_b or spec.a_stored.part
        if spec.beta or spec.batch or not known or spec.is_empty or more:
            raise SpecError(
                f"stage {number} of the chain is {spec}",
                where="compile_chain",
                expected="a spec with beta 0, of real numbers, without batch and prologues, and with known extents of at least 1",
            )
    for number, (first, second) in enumerate(pairwise(stages)):
        if (first.c_shape, first.c) != ((second.m, second.k), second.a) or second.a_transposed:
            raise SpecError(
                f"stage {number} gives {first.m}x{first.n} {first.c}, and stage {number + 1} takes an A of"
                f" {second.m}x{second.k} {second.a}{' stored transposed' if second.a_transposed else ''}",
                where="compile_chain",
                expected="the result of each stage as the A of the next",
            )
