# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Round robin: everyone is sampled in turn, so that all share whatever else the machine does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tilewright.bench.contender import Contender
from tilewright.bench.peak import Rate
from tilewright.bench.rows import Rates
from tilewright.bench.timing import pinned


def take_turns(
    contenders: Mapping[str, Contender],
    limits: Mapping[str, Rate],
    *,
    flops: int,
    rounds: int,
    min_seconds: float,
    on_cores: Iterable[int],
    after_round: Callable[[int], None],
) -> dict[str, Rates]:
    """Samples everyone in turn, `rounds` times; each round starts with another one, so that no one is always first.

    Args:
        contenders: By name, loaded; their rates are `flops` over the seconds of a call.
        limits: By name, what the machine can do; their rates are their own.
        flops: Operations of a call.
        rounds: How many.
        min_seconds: What a sample lasts at least.
        on_cores: Where this thread runs meanwhile.
        after_round: Told how many rounds are done.

    Returns:
        The rates of all, by name, in 10⁹ a second.
    """
    samplers: dict[str, Callable[[], float]] = {}
    with pinned(on_cores):
        for name, contender in contenders.items():
            count = contender.calibrate(min_seconds)
            samplers[name] = lambda each=contender, count=count: flops / each.sample(count)
        for name, limit in limits.items():
            count = limit.calibrate(min_seconds)
            samplers[name] = lambda each=limit, count=count: each.sample(count)
    names = list(samplers)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for done in range(rounds):
        first = done % len(names)
        with pinned(on_cores):
            for name in names[first:] + names[:first]:
                taken[name].append(samplers[name]() * 1e-9)
        after_round(done + 1)
    return {name: Rates(tuple(samples)) for name, samples in taken.items()}
