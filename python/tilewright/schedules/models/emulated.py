# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What products of f32 from pieces in bf16 (`MatmulSpec.precision`) cost, compared with multiply-adds of f32, and where there are any."""

from __future__ import annotations

from tilewright.errors import TargetError, warn_slow
from tilewright.schedules.models import tiles
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS


def speed(spec: MatmulSpec, target: Target) -> float:
    """The rate of a large product from pieces, as a multiple of that of multiply-adds: what the instructions allow, without packing."""
    split = spec.split
    if split is None:
        return 1.0
    dot, plain = target.dot(*spec.multiplied), target.fma_per_cycle * target.lanes(spec.acc_type)
    if dot.is_tile:
        return AMX_ROWS * AMX_ROWS * dot.step / tiles.CYCLES / plain / split.products
    return dot.rows * dot.depth * dot.rate(adds_apart=target.adds_apart) / split.products


def check(spec: MatmulSpec, target: Target) -> None:
    """Raises `TargetError` where a spec wants pieces of a type for which `target` has no instruction."""
    if spec.split is None or target.dot(*spec.multiplied).kind != "multiply_add":
        return
    raise TargetError(
        f"{target.name} has no dot product of {spec.split.element}",
        where=str(spec),
        expected="a target with avx512bf16, amx-bf16 or Arm's bf16, such as znver4, sapphirerapids or neoverse-v2",
        remedy=f"Leave out precision={spec.precision!r}: multiply-adds of f32 are faster there, and as accurate",
    )


def warn(spec: MatmulSpec, target: Target) -> None:
    """Issues a `SlowScheduleWarning` where multiply-adds of f32 are predicted to be faster than the pieces that a spec wants.

    Raises:
        TargetError: As `check` does.
    """
    check(spec, target)
    times = speed(spec, target)
    if times < 1:
        warn_slow(
            f"precision={spec.precision!r} on {target.name} is predicted to run at {times:.2f} times the rate of f32 as it is; leave it out"
            " unless those numbers are wanted"
        )
