# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of a dynamic spec: which extents are computed how. Where they change follows from the table of `select`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from math import lcm

from tilewright.dims import Dim, Extent, divided_by, extent, least, most
from tilewright.errors import ScheduleError, SpecError
from tilewright.schedules import regions, select
from tilewright.schedules.calls import Bounds, Test
from tilewright.schedules.models import few_columns, open_extents, pays
from tilewright.schedules.models.open_extents import DEEP, DEPTHS, Variant
from tilewright.schedules.models.threads import LEAST_CYCLES, cycles, divided, used
from tilewright.schedules.plan import Case, Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_TYPICAL = 1024
"""An extent of which the blocks are like those of larger ones."""
_ENTRIES = 16
"""Entries of a batch that are meant where their number is dynamic: several, though not so many that all else is small."""

_FEW = 16
"""Rows up to which a product with weights from memory has code for each number of them. Streaming such a B is for rows that are
known: with 4096 x 4096 in f32 it takes a quarter of the time of packing at 5 rows, a half at 16 (Zen 4)."""

_NO_PRODUCTS = (Test("k", most=0),)
_SOME = tuple(Test(extent, least=1) for extent in "mnk")
"""What the other cases are for: calls with an extent of zero do not come there."""


_KNOWN = 64
"""Specs whose rules stay known in a process: to learn those of one takes 0.25 s (Zen 3), also where its kernel is in the cache."""

_Rule = tuple[tuple[Test, ...], str, Variant]
"""What a call's extents have to be for a strategy, and for a variant of its code besides."""


@lru_cache(maxsize=_KNOWN)
def _known_rules(spec: MatmulSpec, target: Target, threads: int) -> tuple[_Rule, ...]:
    """The rules, of which a call takes the first one that it fits."""
    return tuple(_rules(spec, target, threads))


def _rules(spec: MatmulSpec, target: Target, threads: int) -> Iterator[_Rule]:
    """The rules as they are found, one by one."""
    yield from _tiny(spec, target)
    yield from _few(spec, target)
    large = select.first(spec, representative(spec, {}), target)
    # Code for few rows or columns, of which threads cannot share calls, is not shared, so this comes first.
    if threads > 1 and select.row(large).threaded and not divided(spec):
        work = (Test("mnk", _shared_work(spec, target)), Test("m", pays.ROWS_TO_PACK))
        tall = open_extents.tall(spec, target)
        name = select.first(spec, representative(spec, tall.typical), target)
        if tall in select.row(name).variants(spec, target):
            yield work, name, tall
        yield from _in_depths(spec, work, large if select.row(large).own_vectors else select.PANELS, Variant())
    # Unpacked, narrow elements are multiplied in whole steps here: code for the last, short one is as much again.
    step = target.dots(*spec.multiplied)[-1].step if spec.widens else 1
    whole = (Test("k", multiple=step),) if step > 1 else ()
    in_steps = [name for name, row in select.STRATEGIES.items() if whole and row.tile == "rows"]
    called = narrowed(spec, (*_SOME, *whole)) or narrowed(spec, _SOME)
    extents = [getattr(called, name) for name in "mnk"]

    call = representative(spec, {})

    def choice(m: int, n: int, k: int) -> str:
        return select.first(spec, _resized(call, m, n, k // step * step or k), target)

    found, usual = regions.rules(extents, choice, in_steps)
    for tests, name in (*found, ((), usual), ((), select.PANELS)):
        for variant in select.row(name).variants(spec, target):
            only = (*variant.tests, *whole) if name in in_steps else variant.tests
            yield from _in_depths(spec, tests, name, replace(variant, tests=only))


def _rest(spec: MatmulSpec, target: Target) -> Iterator[_Rule]:
    """The rules for calls that no other one takes, as of a K beyond what panels hold.

    Vectors of a B that is stored transposed would be gathered by tiles of rows, in 200 KB of code in f32; vectors along K are read.
    """
    along = select.STRATEGIES[select.ALONG_K]
    if spec.b_transposed and not (spec.a_transposed or spec.deterministic) and along.computes(spec):
        yield from (((), select.ALONG_K, variant) for variant in along.variants(spec, target))
    *_, last = (name for name, row in select.STRATEGIES.items() if row.computes(spec))
    yield (), last, Variant()


def _tiny(spec: MatmulSpec, target: Target) -> Iterator[_Rule]:
    """Products of one register tile, whose time goes mostly into finding out what they are."""
    *_, name = (name for name, row in select.STRATEGIES.items() if row.computes(spec))
    if spec.b_transposed or spec.b_packed or select.row(name).tile != "rows":
        return  # Otherwise B is read once where it lies, and so not packed, whatever its elements.
    lanes = target.lanes(spec.acc_type)
    for rows, vectors, depth in open_extents.TINY:
        columns = max(vectors // 2 * lanes + 1, 2), vectors * lanes
        step = target.dots(*spec.multiplied)[-1].step if spec.widens and spec.fused else 1
        tests = (Test("m", 1, rows), Test("n", *columns), Test("k", step, depth, step))
        narrow = narrowed(spec, tests)
        if narrow is not None and narrow.dynamic and open_extents.tile_of_all(narrow, target):
            yield (), name, Variant(tests, {"m": rows, "n": columns[1], "k": depth}, shared=False)


def _few(spec: MatmulSpec, target: Target) -> Iterator[_Rule]:
    """Of weights that come from memory, or are computed, each number of a few rows by itself."""
    if isinstance(spec.n, Dim) or isinstance(spec.k, Dim) or spec.b_packed:
        return
    if spec.prologue_b or spec.n * spec.k >= open_extents.from_memory(spec, target):
        for rows in range(1, (_FEW // 2 if spec.prologue_b else _FEW) + 1):
            name = select.choose(_call(spec, (rows, spec.n, spec.k)), target).strategy
            if not select.is_in_panels(name):
                yield (), name, Variant((Test("m", rows, rows),))


def _in_depths(spec: MatmulSpec, tests: tuple[Test, ...], name: str, variant: Variant) -> Iterator[_Rule]:
    """The rule, by panels of some depths where they have to hold all of a dynamic K."""
    if not (spec.fused and isinstance(spec.k, Dim) and select.is_in_panels(name)):
        yield tests, name, variant
        return
    for depth in (*DEPTHS, DEEP) if pays.is_plain(spec) else DEPTHS:
        deep = {**variant.typical, "k": depth}
        yield tests, name, replace(variant, tests=(*variant.tests, Test("k", most=depth)), typical=deep)


def _shared_work(spec: MatmulSpec, target: Target) -> int:
    """Products from which on two threads are worth it, as `threads.used` has it."""
    typical = representative(replace(spec, **dict.fromkeys("mnk", _TYPICAL)), {})
    return int(_TYPICAL**3 / cycles(typical, target) * 2 * LEAST_CYCLES)


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
        SpecError: Panels cannot hold all of K.
    """
    for loops in {"order", "nest"}.intersection(overrides or ()):
        raise ScheduleError(
            f"{loops} is {(overrides or {})[loops]}",
            where="schedule parameters",
            expected="static extents, whose loops are known",
        )
    if 0 in (spec.m, spec.n, spec.k, spec.alpha):
        return Plan("trivial", None, cases=(Case(spec, Plan("trivial", None), ()),))
    if not pays.is_plain(spec) and isinstance(spec.k, Dim) and spec.k.max > DEPTHS[-1]:
        raise SpecError(
            f"{spec} with a dynamic k",
            where="compile",
            expected=f"a k of at most {DEPTHS[-1]}, so that panels can hold all of it",
            remedy=f"Say so: k=tw.Dim(max={DEPTHS[-1]})",
        )
    # Where strategies sum in different orders, or B is packed for one, there is one for all extents.
    in_order = select.PANELS if spec.deterministic and spec.widens else None
    one = name or in_order or (select.ALONG_K if spec.b_packed and few_columns.pays(spec, target) else None)
    rules = _in_depths(spec, (), one, Variant()) if one else _known_rules(spec, target, threads)
    cases: list[Case] = []
    for rule in (*rules, *_rest(spec, target)):
        case = _case(spec, target, rule, overrides, threads)
        if case is not None and not any(_takes_all(each, case) for each in cases):
            cases.append(case)
    while len(cases) > 1 and (cases[-2].spec, cases[-2].plan) == (cases[-1].spec, cases[-1].plan):
        del cases[-2]
    empty = narrowed(spec, _NO_PRODUCTS)
    if empty is not None:
        cases.insert(
            0 if first_tile(spec, cases, target) is None else 1, Case(empty, Plan("trivial", None), _NO_PRODUCTS)
        )
    names = dict.fromkeys(case.plan.name for case in cases if case.plan.parameters is not None)
    return Plan(
        " or ".join(names),
        cases[-1].plan.parameters,
        threads=max(each.plan.threads for each in cases),
        cases=tuple(cases),
    )


def _case(
    spec: MatmulSpec, target: Target, rule: _Rule, overrides: Mapping[str, int] | None, threads: int
) -> Case | None:
    """The case of those extents that a rule is for; None when there are none. Rules with the same variant share its code."""
    tests, name, variant = rule
    if narrowed(spec, (*_SOME, *tests, *variant.tests)) is None:
        return None
    narrow = narrowed(spec, (*_SOME, *variant.tests))
    assert narrow is not None, "more tests leave something"
    typical = representative(narrow, variant.typical)
    in_panels = select.is_in_panels(name)
    for axis in "mn" if in_panels and not variant.bounded else "":  # Panels of some rows or columns are for all.
        some, every = getattr(narrow, axis), getattr(spec, axis)
        if isinstance(some, Dim) and isinstance(every, Dim):
            narrow = replace(narrow, **{axis: Dim(max(every.min, 1), every.max, every.multiple)})
    if not narrow.dynamic:
        threads = used(typical, target, threads)
    elif not variant.shared:
        threads = 1
    by_calls = threads > 1 and not (in_panels or select.row(name).own_vectors) and divided(narrow)
    of_loops = 1 if by_calls else threads
    choice = select.sized(name, typical, target, overrides, of_loops, typical=bool(narrow.dynamic))
    sizes = select.row(name).opened(choice.parameters, narrow, target)
    if in_panels and overrides:
        sizes = sizes.replaced(overrides)
    guards = [test for test in _merged((*tests, *variant.tests)) if not _certain(spec, test)]
    return Case(narrow, Plan(name, sizes, threads=threads, share="calls" if by_calls else "loops"), tuple(guards))


def _merged(tests: Iterable[Test]) -> Iterator[Test]:
    """The tests, as one for each extent or product of them."""
    by_extents = dict[str, list[Test]]()
    for test in tests:
        by_extents.setdefault(test.extents, []).append(test)
    for extents, group in by_extents.items():
        tops = [test.most for test in group if test.most is not None]
        low, multiple = max(test.least for test in group), lcm(*(test.multiple for test in group))
        yield Test(extents, low, min(tops, default=None), multiple)


def _takes_all(earlier: Case, case: Case) -> bool:
    """Whether no call that an earlier case leaves gets to this one."""
    return all(any(test.covers(other) for other in case.tests) for test in earlier.tests)


def _certain(spec: MatmulSpec, test: Test) -> bool:
    """Whether every call of `spec` with products passes a test."""
    low, high = test.range({name: (max(low, 1), high) for name, (low, high) in bounds(spec).items()})
    whole = test.multiple == 1 or any(divided_by(getattr(spec, each), test.multiple) for each in test.extents)
    return low >= test.least and (test.most is None or high <= test.most) and whole


def implied(spec: MatmulSpec, plan: Plan, kernel: int) -> bool:
    """Whether calls that get to kernel number `kernel` of a plan have extents as its spec says, so that it need not compare them again."""
    wanted, among = plan.kernels[kernel][0], plan.among(kernel)
    some = [*_SOME] if _NO_PRODUCTS in [case.tests for case in plan.cases[: among[0][0]]] else [*_SOME[:2]]
    left = [narrowed(spec, (*some, *tests)) for _, tests in among]
    return all(
        each is not None and all(_within(getattr(each, name), getattr(wanted, name)) for name in "mnk") for each in left
    )


def _within(extent: Extent, bound: Extent) -> bool:
    """Whether a bound leaves all of an extent."""
    divisor = bound.multiple if isinstance(bound, Dim) else 1
    return least(bound) <= least(extent) and most(extent) <= most(bound) and divided_by(extent, divisor)


def first_tile(spec: MatmulSpec, cases: Sequence[Case], target: Target) -> MatmulSpec | None:
    """The extents of the first of several cases, where it is tiny and takes all calls of these; otherwise None."""
    tests = cases[0].tests if len(cases) > 1 else ()
    within, alone = narrowed(spec, (*_SOME, *tests)), all(len(each.extents) == 1 for each in tests)
    return within if tests and within and alone and open_extents.tile_of_all(within, target) else None


def narrowed(spec: MatmulSpec, tests: Iterable[Test]) -> MatmulSpec | None:
    """`spec` with what `tests` say of single extents; None when no extents can pass."""
    for test in tests:
        if len(test.extents) == 1:
            left = _both(getattr(spec, test.extents), test)
            if left is None:
                return None
            spec = replace(spec, **{test.extents: left})
            continue
        low, high = test.range(bounds(spec))
        if high < test.least or (test.most is not None and low > test.most):
            return None
    return spec


def bounds(spec: MatmulSpec) -> Bounds:
    """The least and the most of each extent of a spec."""
    return {name: (least(getattr(spec, name)), most(getattr(spec, name))) for name in "mnk"}


def _both(bound: Extent, test: Test) -> Extent | None:
    """What of an extent passes a test; None for nothing."""
    if not isinstance(bound, Dim):
        return bound if Test("m", test.least, test.most, test.multiple).holds(bound, 0, 0) else None
    top = bound.max if test.most is None else min(bound.max, test.most)
    try:
        return extent("m", Dim(max(bound.min, test.least), top, lcm(bound.multiple, test.multiple)))
    except SpecError:
        return None


def _call(spec: MatmulSpec, at: tuple[int, int, int]) -> MatmulSpec:
    """The spec of a call with these m, n and k."""
    return representative(spec, dict(zip("mnk", at, strict=True)))


def _resized(call: MatmulSpec, m: int, n: int, k: int) -> MatmulSpec:
    """A call's spec with other extents, which are not checked again: the choice is asked about hundreds of calls."""
    other = copy(call)
    for name, size in zip("mnk", (m, n, k), strict=True):
        object.__setattr__(other, name, size)
    return other


def representative(spec: MatmulSpec, typical: Mapping[str, int]) -> MatmulSpec:
    """A static spec of which the sizes are right for every call of `spec`.

    Args:
        spec: What is computed.
        typical: Extents that are meant; others are large.
    """
    sizes = {}
    for name, dim in spec.open.items():
        usual = _TYPICAL if name in spec.dynamic else _ENTRIES
        sizes[name] = max(dim.nearest(typical.get(name, usual)), min(dim.multiple, dim.max))
    return spec.sized(sizes)
