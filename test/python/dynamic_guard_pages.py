# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs dynamic kernels on operands that end, or begin, at a guard page. A program, as `guard_pages` is.

Usage: dynamic_guard_pages.py TARGET DTYPES:SCHEDULE… Each call is announced before it runs.
"""

from __future__ import annotations

import sys

import numpy as np
import products
import tilewright as tw
from guard_pages import PLACINGS, Guarded

SIZES = ((1, 1, 1), (1, 17, 33), (5, 16, 8), (7, 1, 19), (13, 50, 3), (33, 65, 34), (40, 129, 65))


def main(target: str, kinds: list[str]) -> None:
    """Runs one kernel of each kind at all sizes, each with other placings."""
    for kind in kinds:
        dtypes, _, schedule = kind.partition(":")
        for beta in (0, 1):
            spec = tw.MatmulSpec.from_dtypes(None, None, None, dtypes, beta=beta)
            kernel = tw.compile(spec, target=target, schedule=schedule)
            for turn, sizes in enumerate(SIZES):
                for shift in range(len(PLACINGS)):
                    placings = [PLACINGS[(turn + shift * step) % len(PLACINGS)] for step in (1, 2, 3)]
                    sys.stdout.write(f"{spec} {schedule} {sizes} {placings}\n")
                    sys.stdout.flush()
                    _run(kernel, sizes, placings)
    sys.stdout.write("done\n")


def _run(kernel: tw.Kernel, sizes: tuple[int, int, int], placings: list) -> None:
    spec = kernel.spec.at(*sizes)
    operands = products.uniform(spec)
    former = operands[2] if spec.beta else np.full_like(operands[2], products.foreign(operands[2].dtype))
    guarded = [Guarded(each, placing) for each, placing in zip((*operands[:2], former), placings, strict=True)]
    for each in guarded[:2]:
        each.make_read_only()
    a, b, c = (each.matrix for each in guarded)
    kernel(a, b, out=c)
    products.assert_right(spec, operands, c)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
