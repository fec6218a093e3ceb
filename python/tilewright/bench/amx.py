# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a machine with AMX is measured on: numbers that have to be right, shapes beside other libraries, and the bars they have to reach.

The bars are of one core's measured peak: more than the best libraries reached on one core of Sapphire Rapids, which is 46 % at 1024³ in
bf16 with B packed ahead of time and 43 without, and at 2048³ 33 and 30.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.bench.measure import Case
from tilewright.bench.rows import Row
from tilewright.bench.suites import Shape
from tilewright.errors import TargetError
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload.operators import error_bound, reference
from tilewright.payload.samples import values
from tilewright.runtime.compile import compile as compile_kernel
from tilewright.runtime.trial import Difference, Trial
from tilewright.spec import MatmulSpec
from tilewright.targets import host

FLAG = "amx_tile"
"""Linux's name of the feature."""
DTYPES = ("bf16", "u8,i8,i32")
SHAPES = (Shape(256, 256, 256), Shape(1024, 1024, 1024), Shape(2048, 2048, 2048), Shape(128, 768, 3072))
"""Those that have bars first."""
TUNED = (SHAPES[1], SHAPES[2])
"""Shapes that are tuned, in each type."""
_PEAK_BARS = {
    ("bf16", 256): 58,
    ("bf16", 1024): 50,
    ("bf16", 2048): 45,
    ("u8,i8,i32", 256): 50,
    ("u8,i8,i32", 1024): 48,
    ("u8,i8,i32", 2048): 42,
}
"""Percent of the peak that a cube has to reach with B packed in each call, by type and extent."""
_RATIO_BARS = {False: 1.20, True: 1.10}
"""Times the best other library, on the geometric mean, with B packed in each call and ahead of time."""
_CHECKED = ((1, 1, 1), (17, 33, 65), (130, 131, 132), (64, 64, 1030), (9, 200, 33))
_OPERATORS = (
    Conv2dSpec(1, 14, 14, 64, 40, 3, 3, a="bf16", padding="same"),
    Conv2dSpec(2, 9, 9, 33, 17, 1, 1, a="u8", b="i8"),
    AttentionSpec(70, 90, 64, heads=2, q="bf16", causal=True),
)
_CHECKED_TYPES = ("bf16", "bf16,bf16,bf16", "i8", "u8,i8,i32")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar and what was measured.

    Attributes:
        what: What it is of: "bf16 1024x1024x1024, % of peak".
        bar: The least that it should be.
        reached: What was measured.
    """

    what: str
    bar: float
    reached: float

    @property
    def holds(self) -> bool:
        """Whether the bar is reached."""
        return self.reached >= self.bar

    def __str__(self) -> str:
        """A line for people."""
        return f"{'reached' if self.holds else 'MISSED '}  {self.what}: {self.reached:.4g}, bar {self.bar:g}"


def require(flags: frozenset[str] | None = None) -> None:
    """Checks that this machine has AMX, and that Linux lets this process use it.

    Args:
        flags: Linux's flags of the CPU that this process may use; None asks the machine.

    Raises:
        TargetError: It has none, or may not.
    """
    if FLAG not in (host.machine()[1] if flags is None else flags):
        raise TargetError(
            f"nothing is measured: {FLAG} is not among the flags of this machine's CPU that this process may use",
            where="bench amx",
            expected="a processor with AMX, and Linux from 5.16 on",
        )


def checks(seed: int = 0) -> Iterator[tuple[str, str]]:
    """Computes small products, a convolution and attention, and compares each with its reference.

    Yields:
        What was computed, and what is wrong with it; empty where nothing is.
    """
    for spec in _products():
        kernel = compile_kernel(spec, cache=False)
        trial = Trial.random(kernel, spec, seed)
        trial()
        found = trial.difference()
        yield str(spec), "" if found.right else str(found)
    random = np.random.default_rng(seed)
    for spec in _OPERATORS:
        given = [values(random, each.shape, each.type) for each in spec.operands]
        result = compile_kernel(spec, cache=False)(*given)
        found = Difference.of(result, reference(spec, *given), error_bound(spec, *given))
        yield str(spec), "" if found.right else str(found)


def _products() -> Iterator[MatmulSpec]:
    for types in _CHECKED_TYPES:
        for m, n, k in _CHECKED:
            yield MatmulSpec.from_dtypes(m, n, k, types)
        yield MatmulSpec.from_dtypes(130, 131, 132, types, b_packed=True)


def cases(shapes: Sequence[Shape] = SHAPES) -> list[Case]:
    """What is measured beside other libraries, type by type; each type is a session of all of them."""
    each = [(dtype, shape, ahead) for dtype in DTYPES for shape in shapes for ahead in (False, True)]
    return [Case(shape, dtype, 1, "hot", ahead) for dtype, shape, ahead in each]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Each bar of what was measured."""
    found = []
    for row in rows:
        extents = {row.shape.m, row.shape.n, row.shape.k}
        bar = _PEAK_BARS.get((row.dtype, row.shape.m)) if len(extents) == 1 and not row.packed else None
        if bar is not None:
            found.append(Verdict(f"{row.dtype} {row.shape}, % of peak", bar, row.percent_of_peak))
    for packed, bar in _RATIO_BARS.items():
        ratios = [row.ratio_to_best for row in rows if row.packed == packed and row.ratio_to_best is not None]
        if ratios:
            how = "ahead of time" if packed else "in each call"
            mean = statistics.geometric_mean(ratios)
            found.append(Verdict(f"B packed {how}, times the best other library, {len(ratios)} shapes", bar, mean))
    return found
