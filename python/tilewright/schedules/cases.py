# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of a dynamic spec: which extents are computed how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import lcm, prod

from tilewright.dims import Dim, Extent, divided_by, extent, least, most
from tilewright.errors import SpecError
from tilewright.schedules import select
from tilewright.schedules.calls import Test
from tilewright.schedules.models import open_extents, pays, strip_form
from tilewright.schedules.models.blocking import ceil_div, held_bytes, most_rows, unpacked_blocking
from tilewright.schedules.models.threads import LEAST_CYCLES, cycles, used
from tilewright.schedules.plan import Case, Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_TYPICAL = 1024
"""An extent of which the blocks are like those of larger ones."""
_ENTRIES = 16
"""Entries of a batch that are meant where their number is dynamic: several, though not so many that all else is small."""

_DEPTHS = (1040, 4112)
"""Rows of B up to which panels hold all of K, as they have to where something is done to the sums: two sizes, so that the
panels of a small K do not lie far apart, and no multiples of a power of two, so that not all of them are in the same sets."""

_DEEP = 16400
"""A third such size, for what every strategy fuses: above it B is not packed. In f32, 256 x 256 by 8192, of the speed of C += A·B of these
extents, so and unpacked (Zen 5): 0.79 and 0.69."""

_FEW = 16
"""Rows up to which a product with weights from memory has code for each number of them. Streaming such a B is for rows that are
known: with 4096 x 4096 in f32 it takes a quarter of the time of packing at 5 rows, a half at 16 (Zen 4)."""

_WIDE = 1 << 14
"""Columns of a strip of C that is streamed for `open_extents.STREAMED_FEW` rows."""

_ALONG_K = (4, 16)
"""Rows up to which a transposed B is multiplied along K where K is as long as that many need, and before as many as there can be. In
f32, of the speed of static code (Zen 4, all extents open), so and packed: 4 rows by 1024 x 1024 0.92 and 0.17, 16 rows 0.95 and 0.43."""

_PACKED_ROWS = (1, 2, 3, 4, 5, 8, 10)
"""Rows up to which a register tile of the usual height would be wasted in part."""

_PANEL_VECTORS = (1, 2, 3, 5, 6, 7, 10)
"""Vectors of columns up to which the usual panels, of four, would be empty in a good part."""

_NO_PRODUCTS = (Test("k", most=0),)
_SOME = tuple(Test(extent, least=1) for extent in "mnk")
"""What the other cases are for: calls with an extent of zero do not come there."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Extents for which one strategy is chosen.

    Attributes:
        tests: What they have to be.
        typical: Extents for which the sizes are computed, where they are not those that are known.
        strategy: Which one; None for that which is chosen for the typical extents, and for nothing if that packs, as what
            is large does.
    """

    tests: tuple[Test, ...]
    typical: Mapping[str, int]
    strategy: str | None = None


def _rules(spec: MatmulSpec, target: Target, threads: int) -> Iterator[_Rule]:
    """Where `select.choose` changes its mind, by tests of extents; the last rule fits always."""
    lanes, few = target.lanes(spec.acc_type), most_rows(target)
    dot = target.dots(spec.a_type.name, spec.b_type.name)[-1]
    from_memory = ceil_div(held_bytes(target) // 2, spec.b_type.bytes)
    beyond_l2 = 2 * target.l2.bytes // spec.b_type.bytes + 1
    deep, wide = {"n": 2048, "k": 2048}, {"n": 512, "k": 512}
    along_k = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    step = lanes * (1 if along_k is None else along_k.depth)
    yield _Rule((Test("n", 1, 1), Test("k", step, None if spec.b_transposed else open_extents.COLUMN)), {"n": 1})
    whole = (Test("k", multiple=dot.step),) if spec.widens and dot.step > 1 else ()
    yield _Rule((Test("m", 1, 1), Test("kn", from_memory), *whole), {"m": 1, **deep})
    yield _Rule((Test("m", 1, 1), *whole), {"m": 1})
    weights = not isinstance(spec.n, Dim) and not isinstance(spec.k, Dim)
    if weights:
        for rows in range(2, _FEW + 1):
            yield _Rule((Test("m", rows, rows), Test("kn", from_memory)), {})
    if threads > 1:
        yield from _large(spec, None, (Test("mnk", _shared_work(spec, target)), Test("m", pays.ROWS_TO_PACK)))
    if spec.b_transposed and not spec.a_transposed:
        for rows in (*_ALONG_K, pays.most_along_k(spec, target)):
            yield _Rule((Test("m", most=rows), Test("k", 2 * lanes * rows)), {"m": 4, **deep}, "inner_product")
    if strip_form.takes(spec):
        tall = pays.NARROW_PRODUCTS // dot.depth if spec.widens else open_extents.STREAMED_ROWS
        large = (Test("kn", from_memory), *whole)
        yield _Rule(
            (Test("m", most=open_extents.STREAMED_FEW), *large),
            {"m": open_extents.STREAMED_FEW, "n": _WIDE, "k": 2048},
            "streamed",
        )
        yield _Rule((Test("m", most=tall), *large), {"m": min(tall // 2, 32), **deep}, "streamed")
    # Rows of A a power of two apart are in the same sets of L1: as many at a time as fit then.
    way = target.l1.bytes // target.l1.ways
    yield _Rule((Test("n", most=lanes // 2), *whole), {"n": lanes // 2, "k": way // spec.a_type.bytes})
    # A B of one register tile's columns is its own panel.
    panel = unpacked_blocking(representative(spec, {}), target).nr
    if not (spec.fused or spec.b_transposed or whole):
        yield _Rule((Test("n", most=panel),), wide, "unpacked")
    if whole:
        rows = pays.NARROW_PRODUCTS // dot.depth
        yield _Rule((Test("m", most=rows - 1), *whole), {"m": rows // 2, **wide})
    else:
        yield _Rule((Test("m", 2, 2), Test("kn", most=from_memory - 1)), {"m": 2})
        rows = pays.ROWS_TO_PACK - 1 if spec.fused and not weights else 5 * few
        yield _Rule((Test("m", most=rows), Test("kn", most=from_memory - 1)), {"m": few, **wide})
        if not weights:
            yield _Rule((Test("m", most=_FEW // 2),), {"m": few, **wide})
        yield _Rule((Test("kn", most=beyond_l2 - 1),), wide)
    chosen = select.choose(representative(spec, {}), target).strategy
    if (
        spec.widens and not spec.fused and select.is_in_panels(chosen)
    ):  # Nearly always, in panels of few columns where there are few.
        for vectors in _PANEL_VECTORS:
            yield _Rule((Test("n", most=vectors * lanes),), {"n": vectors * lanes, "k": _DEPTHS[0]}, "packed")
    yield from _large(spec, chosen if select.STRATEGIES[chosen].own_vectors else None)


def _packed_rules() -> Iterator[_Rule]:
    """For a B that comes packed: register tiles of as many rows as there are, of one and the same width."""
    for rows in _PACKED_ROWS:
        yield _Rule((Test("m", most=rows),), {"m": rows}, "packed")
    yield _Rule((), {}, "packed")


def _fused_rules(spec: MatmulSpec) -> Iterator[_Rule]:
    """For what is done before a product with weights of known extents: a few rows, of which each number has code of its own."""
    if spec.prologue_b and not isinstance(spec.n, Dim) and not isinstance(spec.k, Dim):
        for rows in range(1, _FEW // 2 + 1):
            yield _Rule((Test("m", rows, rows),), {})
    yield from _large(spec, "packed")


def _large(spec: MatmulSpec, name: str | None, tests: tuple[Test, ...] = ()) -> Iterator[_Rule]:
    """What is not small in any way, and passes `tests`, by strategy `name`, or by `packed`."""
    if not spec.fused or not select.is_in_panels(name or select.PANELS):
        yield _Rule(tests, {}, name or select.PANELS)
        return
    for depth in _DEPTHS:
        yield _Rule((*tests, Test("k", most=depth)), {"k": depth}, "packed")
    if pays.is_plain(spec):
        yield _Rule((*tests, Test("k", most=_DEEP)), {"k": _DEEP}, "packed")
        yield _Rule(tests, {}, "unpacked")
    elif most(spec.k) > _DEPTHS[-1]:
        raise SpecError(
            f"{spec} with a dynamic k",
            where="compile",
            expected=f"a k of at most {_DEPTHS[-1]}, so that panels can hold all of it",
            remedy=f"Say so: k=tw.Dim(max={_DEPTHS[-1]})",
        )


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
    """
    cases: list[Case] = []
    # With sums in one order, whatever the extents, there is one strategy for all.
    one = name or (select.PANELS if not pays.is_plain(spec) or spec.deterministic else None)
    fused = not pays.is_plain(spec) and not (name or spec.deterministic)
    if fused:
        rules = _fused_rules(spec)
    elif one:
        rules = _large(spec, one)
    else:
        rules = _packed_rules() if spec.b_packed else _rules(spec, target, threads)
    if 0 in (spec.m, spec.n, spec.k, spec.alpha):
        return Plan("trivial", None, cases=(Case(spec, Plan("trivial", None), ()),))
    for rule in rules:
        case = _case(spec, target, rule, overrides, threads)
        if case is not None and not any(_takes_all(each, case) for each in cases):
            cases.append(case)
    last = cases[-1]
    while len(cases) > 1 and (cases[-2].spec, cases[-2].plan) == (last.spec, last.plan):
        del cases[-2]
    empty = narrowed(spec, _NO_PRODUCTS)
    if empty is not None:
        cases.insert(0, Case(empty, Plan("trivial", None), _NO_PRODUCTS))
    names = dict.fromkeys(case.plan.name for case in cases if case.plan.parameters is not None)
    return Plan(
        " or ".join(names), last.plan.parameters, threads=max(each.plan.threads for each in cases), cases=tuple(cases)
    )


def _case(
    spec: MatmulSpec, target: Target, rule: _Rule, overrides: Mapping[str, int] | None, threads: int
) -> Case | None:
    """The case of those extents that a rule is for; None when there are none, or they are computed as large ones are."""
    narrow = narrowed(spec, (*_SOME, *rule.tests))
    if narrow is None:
        return None
    if isinstance(narrow.m, Dim) and isinstance(spec.m, Dim):
        # Code for some rows is code for all: cases that differ in nothing else share it.
        narrow = replace(narrow, m=Dim(max(spec.m.min, 1), spec.m.max, narrow.m.multiple))
    if rule.strategy and select.row(rule.strategy).any_depth and isinstance(narrow.k, Dim) and isinstance(spec.k, Dim):
        narrow = replace(
            narrow, k=Dim(max(spec.k.min, 1), narrow.k.max, narrow.k.multiple)
        )  # So does that for any depth.
    tests = tuple(test for test in rule.tests if not _certain(spec, test))
    typical = representative(narrow, rule.typical)
    threads = threads if rule.strategy else used(typical, target, threads) if not narrow.dynamic else 1
    if rule.strategy is None:
        choice = select.choose(typical, target, overrides, threads)
        takes = not narrow.dynamic or select.row(choice.strategy).dynamic(narrow)
        if not takes and not spec.b_transposed:
            choice = select.sized("unpacked", typical, target, overrides, threads)
        elif select.is_in_panels(choice.strategy) or not takes:
            return None
    else:
        choice = select.sized(rule.strategy, typical, target, overrides, threads)
    return Case(
        narrow,
        Plan(choice.strategy, select.row(choice.strategy).opened(choice.parameters, narrow), threads=threads),
        tests,
    )


def _takes_all(earlier: Case, case: Case) -> bool:
    """Whether no call that an earlier case leaves gets to this one."""
    return all(any(test.covers(other) for other in case.tests) for test in earlier.tests)


def _certain(spec: MatmulSpec, test: Test) -> bool:
    """Whether every call of `spec` with products passes a test."""
    bounds = [getattr(spec, each) for each in test.extents]
    low, high = (prod(bound(each) for each in bounds) for bound in (lambda each: max(least(each), 1), most))
    whole = test.multiple == 1 or any(divided_by(each, test.multiple) for each in bounds)
    return low >= test.least and (test.most is None or high <= test.most) and whole


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
