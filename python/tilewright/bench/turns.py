# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Samples all contenders in turn, so that other load on the machine affects all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from tilewright.bench.contender import Calls, Contender
from tilewright.bench.peak import Rate
from tilewright.bench.rows import Rates
from tilewright.bench.timing import Loop, pinned

_TOO_SLOW = 0.1  # of the fastest contender's rate
_LONG_SAMPLE = 1.0  # seconds
_SETTLE = 0.05
"""Seconds for which threads of the one before may still be waiting busily: those of ONNX Runtime 36 ms, of GNU's OpenMP 5, and of others
less, as `peers.process_environment` tells them. With 5 ms, what came after ONNX Runtime shared a core with its threads: the peak of two
threads was measured at 0.6 of itself."""


def take_turns(
    contenders: Mapping[str, Calls | Contender | Loop],
    limits: Mapping[str, Rate],
    *,
    flops: int,
    rounds: int,
    min_seconds: float,
    on_cores: Iterable[int],
    after_round: Callable[[int], None],
) -> dict[str, Rates]:
    """Samples everyone in turn, `rounds` times; each round starts with another one, so that no one is always first.

    A contender ten times slower than the fastest, whose sample lasts more than a second, is sampled in the first round only.

    Args:
        contenders: By name, loaded; their rates are `flops` over the seconds of a call.
        limits: By name, what the machine can do; their rates are their own.
        flops: Operations of a call.
        rounds: How many.
        min_seconds: What a sample lasts at least.
        on_cores: Where this thread runs meanwhile; with several, there is a pause before each sample.
        after_round: Told how many rounds are done.

    Returns:
        The rates of all, by name, in 10⁹ a second.
    """
    cores = tuple(on_cores)
    samplers: dict[str, Callable[[], float]] = {}
    with pinned(cores):
        for name, contender in contenders.items():
            count = contender.calibrate(min_seconds)
            samplers[name] = lambda each=contender, count=count: flops / each.sample(count)
        for name, limit in limits.items():
            count = limit.calibrate(min_seconds)
            samplers[name] = lambda each=limit, count=count: each.sample(count)
    names = list(samplers)
    taken: dict[str, list[float]] = {name: [] for name in names}
    lasted: dict[str, float] = {}
    for done in range(rounds):
        first = done % len(names)
        with pinned(cores):
            for name in names[first:] + names[:first]:
                if len(cores) > 1:
                    time.sleep(_SETTLE)
                start = time.perf_counter()
                taken[name].append(samplers[name]() * 1e-9)
                lasted[name] = time.perf_counter() - start
        after_round(done + 1)
        if done == 0:
            fastest = max(taken[name][0] for name in contenders)
            slow = {name for name in contenders if taken[name][0] < _TOO_SLOW * fastest and lasted[name] > _LONG_SAMPLE}
            names = [name for name in names if name not in slow]
    return {name: Rates(tuple(samples)) for name, samples in taken.items()}
