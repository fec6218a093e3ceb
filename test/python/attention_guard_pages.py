# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs attention on operands between guard pages, and checks it. A program, as `guard_pages` is.

Usage: attention_guard_pages.py TARGET NUMBER… Each case of `attention_cases` is announced before it runs.
"""

from __future__ import annotations

import sys

import attention_cases
import numpy as np
import tilewright as tw
from guard_pages import PLACINGS, Guarded
from tilewright.dtypes import to_numpy
from tilewright.payload.reference import within_bound


def main(target: str, *numbers: str) -> None:
    for number in map(int, numbers):
        spec, compiled = attention_cases.specs(number)
        sys.stdout.write(f"{number}: {compiled} for {target}\n")
        sys.stdout.flush()
        kernel = tw.compile(compiled, target)
        operands = attention_cases.operands(spec, seed=number)
        # numpy's strides know no floats of eight bits.
        bits = [each.view(np.uint8) if each.itemsize == 1 else each for each in operands]
        placed = [Guarded(each, PLACINGS[(number + at) % len(PLACINGS)]) for at, each in enumerate(bits)]
        for each in placed:
            each.make_read_only()
        given = [each.matrix.view(like.dtype) for each, like in zip(placed, operands, strict=True)]
        result = Guarded(
            np.full(spec.result.shape, np.nan, to_numpy(spec.result.type)), PLACINGS[number % len(PLACINGS)]
        )
        kernel(*given, out=result.matrix)
        known, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
        assert np.isfinite(bound).all(), "nothing is promised"
        assert within_bound(result.matrix, known, bound).all(), "wrong"
        assert not result.is_written_around(), "written around the result"


if __name__ == "__main__":
    main(*sys.argv[1:])
