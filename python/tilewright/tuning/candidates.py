# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search may try: strategies with sizes for a spec."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tilewright.errors import TilewrightError
from tilewright.schedules import select
from tilewright.schedules.models import space
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.tuning import predict

_MOST = 400
"""Candidates of a strategy that are kept, the likely winners: a search of minutes tries a tenth of them."""
_MOST_POINTS = 20_000
_HOPELESS = 4.0
"""Times the predicted cost of the model's choice beyond which another strategy is not tried."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy with sizes.

    Attributes:
        strategy: Its name.
        sizes: Its sizes.
    """

    strategy: str
    sizes: Blocking

    def __str__(self) -> str:
        """The strategy and the tile and blocks."""
        p = self.sizes
        return f"{self.strategy} mr={p.mr} nr={p.nr} mc={p.mc} nc={p.nc} kc={p.kc}"


@dataclass(frozen=True, slots=True)
class Space:
    """What may be tried, and in which order.

    Attributes:
        start: What is there without a search.
        ordered: Others, those first that are likely to win.
        near: Others that differ in little from one.
    """

    start: Candidate
    ordered: Sequence[Candidate]
    near: Callable[[Candidate], Iterable[Candidate]]


def of(spec: MatmulSpec, target: Target, plan: Plan) -> Space:
    """The strategies that compute `spec`, with the sizes that their axes offer, from the model's plan on."""
    start = Candidate(plan.name, Blocking(**plan.sizes))

    def cost(each: Candidate) -> float:
        return predict.cycles(spec, target, each.strategy, each.sizes)

    limit = _HOPELESS * cost(start)
    seeds: list[Candidate] = []
    others: list[Candidate] = []
    for name in select.available(target):
        row = select.row(name)
        sizes = _model_sizes(name, spec, target, plan.threads)
        if sizes is None or not row.axes:
            continue
        seed = start if name == start.strategy else Candidate(name, sizes)
        if cost(seed) > limit:
            continue
        seeds += [seed] * (seed != start)
        found = islice(space.points(row.axes, spec, target, seed.sizes), _MOST_POINTS)
        others += heapq.nsmallest(_MOST, (Candidate(name, each) for each in found), key=cost)

    def near(candidate: Candidate) -> list[Candidate]:
        found: dict[Candidate, None] = {}
        for axis in select.row(candidate.strategy).axes:
            for name in axis.sizes:
                options = space.along(axis, name, spec, target, candidate.sizes)
                at = options.index(getattr(candidate.sizes, name))
                for option in options[max(at - 1, 0) : at + 2]:
                    found[replace(candidate, sizes=replace(candidate.sizes, **{name: option}))] = None
        found.pop(candidate, None)
        return sorted(found, key=cost)

    rest = [each for each in sorted(others, key=cost) if each != start and each not in seeds]
    return Space(start, [*sorted(seeds, key=cost), *rest], near)


def _model_sizes(name: str, spec: MatmulSpec, target: Target, threads: int) -> Blocking | None:
    """The model's sizes of a strategy; None where it does not compute `spec` as its users expect."""
    if spec.n != 1 and not spec.b_transposed and select.row(name).own_order:
        return None
    if spec.b_packed and not select.is_in_panels(name):
        return None
    try:
        return select.sized(name, spec, target, None, threads).parameters
    except TilewrightError:
        return None
