# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search may try for a product: our strategies with sizes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tilewright.errors import TilewrightError
from tilewright.runtime import products
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import select
from tilewright.schedules.models import few_columns, space
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.tuning import predict

MOST = 400
"""Candidates of a strategy that are kept, the likely winners: a search of minutes tries a tenth of them."""
MOST_POINTS = 20_000
_HOPELESS = 4.0
"""Times the predicted cost of the model's choice beyond which another strategy is not tried."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy with sizes, or a user's schedule with choices.

    Attributes:
        strategy: The strategy's name; of a user's schedule, its digest (`own.name`).
        sizes: By name.
    """

    strategy: str
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, strategy: str, sizes: Mapping[str, int]) -> Candidate:
        """A candidate with sizes by name, in whatever order."""
        return cls(strategy, tuple(sorted(sizes.items())))

    @property
    def blocking(self) -> Blocking:
        """The sizes of one of our strategies."""
        return Blocking(**dict(self.sizes))


def width(candidate: Candidate) -> int | None:
    """The columns of the register tile, or its vectors; None where there is none."""
    return dict(candidate.sizes).get("nr")


@dataclass(frozen=True, slots=True)
class Space:
    """What may be tried, and in which order.

    Attributes:
        start: What is there without a search.
        ordered: Others, those first that are likely to win.
        near: Others that differ in little from one.
        kind: What one is like, of those that predictions err about alike.
        compile: Compiles one.
        multiplied: The types of the elements that are multiplied, whose peak is measured.
        admits: Whether what won elsewhere can be tried here.
        own: What records call the user's schedule whose choices these are; None for strategies of ours, of which compilation takes
            the winner from then on.
    """

    start: Candidate
    ordered: Sequence[Candidate]
    near: Callable[[Candidate], Iterable[Candidate]]
    kind: Callable[[Candidate], Hashable]
    compile: Callable[[Candidate], Kernel]
    multiplied: tuple[str, str]
    admits: Callable[[Candidate], bool] = lambda candidate: False
    own: str | None = None


def of(spec: MatmulSpec, target: Target, plan: Plan, threads: int = 1) -> Space:
    """The strategies that compute `spec` in at most so many threads, with the sizes that their axes offer, from the model's plan on."""
    start = Candidate.of(plan.name, plan.sizes)

    def cost(each: Candidate) -> float:
        return predict.cycles(spec, target, each.strategy, each.blocking)

    limit = _HOPELESS * cost(start)
    seeds: list[Candidate] = []
    others: list[Candidate] = []
    # A packed B is for products of every M, which the start's strategy is for too.
    for name in [start.strategy] if spec.b_packed else select.available(target):
        row = select.row(name)
        # What the model chose is there in any case, also where others would sum in another order than its users expect.
        sizes = start.blocking if name == start.strategy else _model_sizes(name, spec, target, plan.threads)
        if sizes is None or not row.axes:
            continue
        seed = start if name == start.strategy else Candidate.of(name, sizes.by_name)
        if cost(seed) > limit:
            continue
        seeds += [seed] * (seed != start)
        found = islice(space.points(row.axes, spec, target, seed.blocking), MOST_POINTS)
        others += heapq.nsmallest(MOST, (Candidate.of(name, each.by_name) for each in found), key=cost)

    def near(candidate: Candidate) -> list[Candidate]:
        name, now = candidate.strategy, candidate.blocking
        around = space.around(select.row(name).axes, spec, target, now)
        return sorted(dict.fromkeys(Candidate.of(name, each.by_name) for each in around), key=cost)

    def compile_(candidate: Candidate) -> Kernel:
        name, sizes = candidate.strategy, select.whole(candidate.strategy, dict(candidate.sizes))
        return products.compile(spec, target, threads, cache=True, schedule=name, parameters=sizes, verify=False)

    def admits(candidate: Candidate) -> bool:
        name = candidate.strategy
        known = name in select.available(target) and select.row(name).axes and select.row(name).computes(spec)
        return bool(known) and not spec.b_packed

    rest = [each for each in sorted(others, key=cost) if each != start and each not in seeds]
    types = spec.a_type.name, spec.b_type.name
    return Space(start, [*sorted(seeds, key=cost), *rest], near, width, compile_, types, admits)


def _model_sizes(name: str, spec: MatmulSpec, target: Target, threads: int) -> Blocking | None:
    """The model's sizes of a strategy; None where it does not compute `spec` as its users expect."""
    beside = spec.n == 1 or spec.b_transposed or few_columns.pays(spec, target)
    if select.row(name).own_order and not beside:
        return None
    try:
        return select.sized(name, spec, target, None, threads).parameters
    except TilewrightError:
        return None
