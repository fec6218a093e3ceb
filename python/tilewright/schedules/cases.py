# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of a dynamic spec: which extents are computed how, when only a call tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm, prod

from tilewright.dims import MAX_EXTENT, Dim, Extent, extent, least, most
from tilewright.errors import SpecError
from tilewright.schedules import select
from tilewright.schedules.blocking import Blocking
from tilewright.schedules.plan import Case, Plan, Test
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_TYPICAL = 1024
"""An extent of which the blocks are like those of larger ones."""


def plan(
    spec: MatmulSpec, target: Target, name: str | None, overrides: Mapping[str, int] | None = None, threads: int = 1
) -> Plan:
    """The plan of a dynamic spec.

    Args:
        spec: What is computed.
        target: For which target.
        name: The strategy of all cases with arithmetic; None to have one chosen for each.
        overrides: Sizes that override the models', by name.
        threads: Most threads that a call uses.

    Raises:
        ScheduleError: The strategy or an override is unknown, or a size is no int above zero.
    """
    cases = []
    for tests in (_NO_PRODUCTS, ()):
        case = _case(spec, target, tests, name, overrides, threads)
        if case is not None:
            cases.append(case)
    names = dict.fromkeys(case.plan.name for case in cases if case.plan.parameters is not None)
    last = cases[-1].plan
    return Plan(" or ".join(names) or last.name, last.parameters, threads=threads, cases=tuple(cases))


_NO_PRODUCTS = (Test("k", most=0),)


def _case(
    spec: MatmulSpec,
    target: Target,
    tests: Sequence[Test],
    name: str | None,
    overrides: Mapping[str, int] | None,
    threads: int,
) -> Case | None:
    """The case of those extents that pass `tests`; None when none can."""
    narrow = narrowed(spec, tests)
    if narrow is None:
        return None
    if 0 in (narrow.m, narrow.n, narrow.k):
        return Case(narrow, Plan("trivial", None), tuple(tests))
    typical = representative(narrow)
    choice = (
        select.choose(typical, target, overrides, threads)
        if name is None
        else select.sized(name, typical, target, overrides, threads)
    )
    return Case(narrow, Plan(choice.strategy, _open(choice, narrow), threads=threads), tuple(tests))


def _open(choice: select.Choice, spec: MatmulSpec) -> Blocking:
    """The sizes of a choice; blocks that are all of an extent that only a call tells are without an end."""
    if choice.strategy != "unpacked":
        return choice.parameters
    blocks = {"m": "mc", "n": "nc", "k": "kc"}
    return replace(choice.parameters, **dict.fromkeys((blocks[each] for each in spec.dynamic), MAX_EXTENT))


def narrowed(spec: MatmulSpec, tests: Iterable[Test]) -> MatmulSpec | None:
    """`spec` with what `tests` say of single extents; None when no extents can pass."""
    for test in tests:
        bounds = [getattr(spec, each) for each in test.extents]
        if len(bounds) == 1:
            (bound,) = bounds
            left = _both(bound, test)
            if left is None:
                return None
            spec = replace(spec, **{test.extents: left})
        elif prod(map(most, bounds)) < test.least or (test.most is not None and prod(map(least, bounds)) > test.most):
            return None
    return spec


def _both(bound: Extent, test: Test) -> Extent | None:
    """What of an extent passes a test; None for nothing."""
    if not isinstance(bound, Dim):
        return bound if Test("m", test.least, test.most, test.multiple).holds(bound, 0, 0) else None
    top = bound.max if test.most is None else min(bound.max, test.most)
    try:
        return extent("m", Dim(max(bound.min, test.least), top, lcm(bound.multiple, test.multiple)))
    except SpecError:
        return None


def representative(spec: MatmulSpec) -> MatmulSpec:
    """A static spec of which the sizes are right for every call of `spec`."""
    sizes = {}
    for name in spec.dynamic:
        dim = getattr(spec, name)
        size = min(max(_TYPICAL, dim.min), dim.max)
        sizes[name] = size // dim.multiple * dim.multiple
    return replace(spec, **sizes)
