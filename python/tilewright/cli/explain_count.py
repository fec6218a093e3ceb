# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The instructions that one call of a kernel executes, counted in an emulator, for ``explain --count``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import TargetError

if TYPE_CHECKING:
    from tilewright.cli.problem import Problem


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions of one call.

    Attributes:
        kernel: Those of the kernel.
        openblas: Those of OpenBLAS for the same product; None where it has no such product, or is not there.
        version: Which OpenBLAS that is; empty without.
        note: Why that is not there; None when it is, or has no such product.
    """

    kernel: int
    openblas: int | None = None
    version: str = ""
    note: str | None = None

    def __str__(self) -> str:
        """In a line."""
        text = f"{self.kernel} instructions a call"
        if self.openblas is None:
            return text
        return f"{text}, {self.kernel / self.openblas:.2f} times those of OpenBLAS {self.version} ({self.openblas})"


def count(problem: Problem, schedule: str | None, parameters: Mapping[str, int]) -> Count:
    """Runs the kernel of a problem, whose schedule was asked for so, on operands of zeros.

    Raises:
        TargetError: The target's code is not emulated here, or the emulator cannot count.
        TilewrightError: The spec has extents that are not known, or as for `tilewright.compile`.
    """
    import numpy as np

    from tilewright.bench import emulated_openblas
    from tilewright.dtypes import to_numpy
    from tilewright.runtime.compile import compile

    spec, target = problem.spec, problem.target
    kernel = compile(spec, target, problem.plan.threads, schedule, parameters=parameters)
    if kernel.refusal is not None:
        raise kernel.refusal
    a, b = np.zeros(spec.a_shape, to_numpy(spec.a_stored)), np.zeros(spec.b_shape, to_numpy(spec.b_stored))
    further = [np.zeros(each.shape, to_numpy(each.type)) for each in spec.further]
    out = np.zeros(spec.c_shape, to_numpy(spec.c_type))
    found = kernel.count_instructions(a, kernel.pack_b(b) if spec.b_packed else b, *further, out=out)
    if target.family != "arm" or not emulated_openblas.computes(spec):
        return Count(found)
    try:
        return Count(found, emulated_openblas.count(spec), emulated_openblas.version())
    except TargetError as error:
        return Count(found, note=f"OpenBLAS is not counted: {error}")
