# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says whether kernels are slower than one of the same product, timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from tilewright.bench.timing import Loop
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Trial
from tilewright.spec import MatmulSpec

_SECONDS, _ROUNDS = 0.01, 9
"""How long a sample of a kernel's time lasts, and how many there are."""


def slower(usual: Kernel, spec: MatmulSpec, times: float) -> Callable[[Kernel], bool]:
    """Makes what says of a kernel whether it takes more than `times` the time of `usual`, on random operands of `spec`."""
    reference = Loop([Trial.random(usual, spec, 0)])

    def is_slower(kernel: Kernel) -> bool:
        loop = Loop([Trial.random(kernel, spec, 0)])
        counts = [(each, each.calibrate(_SECONDS)) for each in (reference, loop)]
        pairs = [[each.sample(count) for each, count in counts] for _ in range(_ROUNDS)]
        return statistics.median(took / before for before, took in pairs) > times

    return is_slower
