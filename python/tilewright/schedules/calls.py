# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For which calls a schedule is: its threads, and, of a kernel with dynamic extents, the cases that it computes.

The transform module carries both as a ``#tilewright.kernel``, so that a printed schedule makes the same kernel again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tilewright.dims import Dim, Extent, least, most

if TYPE_CHECKING:
    from tilewright.mlir import ir

_KERNEL = "tilewright.kernel"
_SEPARATOR = re.compile(r"^// -----[ \t]*$", re.MULTILINE)
_ANY = -1
"""What a test's most is in the attribute where it is any."""

Share = Literal["loops", "calls"]
"""What threads share: loops of the code, or calls, of which each computes rows or columns of C of its own by all of the code."""

Bounds = Mapping[str, tuple[int, int]]
"""The least and the most of extents, by name."""


@dataclass(frozen=True, slots=True)
class Test:
    """What a call's extents have to be.

    Attributes:
        extents: Those whose product is looked at: "m", "kn"; or the quotient of two, rounded down: "k/m".
        least: The least that it may be.
        most: The most that it may be; None for any.
        multiple: What has to divide it.
    """

    extents: str
    least: int = 0
    most: int | None = None
    multiple: int = 1

    def holds(self, m: int, n: int, k: int) -> bool:
        """Whether it does for a call."""
        value, _ = self.range({"m": (m, m), "n": (n, n), "k": (k, k)})
        return self.least <= value and (self.most is None or value <= self.most) and value % self.multiple == 0

    def range(self, bounds: Bounds) -> tuple[int, int]:
        """The least and the most that what is looked at can be, of extents within `bounds`, which are above zero where they divide."""
        over, _, under = self.extents.partition("/")
        low, high = (prod(bounds[each][side] for each in over) for side in (0, 1))
        return (low // max(bounds[under][1], 1), high // max(bounds[under][0], 1)) if under else (low, high)

    def covers(self, other: Test) -> bool:
        """Whether all that pass another test pass this one."""
        wide = self.most is None or (other.most is not None and other.most <= self.most)
        return (
            self.extents == other.extents and self.least <= other.least and wide and other.multiple % self.multiple == 0
        )


@dataclass(frozen=True, slots=True)
class Calls:
    """For which calls a schedule is.

    Attributes:
        threads: Most threads of a call.
        share: What they share: a `Share`.
        extents: Of a dynamic kernel's case, the extents by name that the schedule was made for.
        cases: The cases that it computes: the number of each, and its tests.
    """

    threads: int
    share: Share = "loops"
    extents: Mapping[str, Extent] = field(default_factory=lambda: MappingProxyType({}))
    cases: Sequence[tuple[int, tuple[Test, ...]]] = ()


def record(schedule: ir.Module, calls: Calls) -> None:
    """Writes on a schedule's module for which calls it is.

    Before: ``module attributes {transform.with_named_sequence}``. After::

        module attributes {tilewright.kernel = #tilewright.kernel<threads = 2>, transform.with_named_sequence}
    """
    from tilewright.mlir import ir

    bounds = {name: (least(each), most(each), _divisor(each)) for name, each in calls.extents.items()}
    extents = ", ".join(f"{name} = array<i64: {', '.join(map(str, each))}>" for name, each in bounds.items())
    cases = ", ".join(
        f"{{number = {number}, tests = [{', '.join(map(_test_text, tests))}]}}" for number, tests in calls.cases
    )
    said = [f"threads = {calls.threads}"]
    if calls.extents:
        said += [f'share = "{calls.share}"', f"extents = {{{extents}}}", f"cases = [{cases}]"]
    text = ", ".join(said)
    schedule.operation.attributes[_KERNEL] = ir.Attribute.parse(f"#tilewright.kernel<{text}>", schedule.context)


def read(schedule: ir.Module) -> Calls | None:
    """For which calls a schedule's module is; None where it does not say."""
    from tilewright.schedules.decisions import said

    if _KERNEL not in schedule.operation.attributes:
        return None
    found = said(schedule.operation.attributes[_KERNEL])
    extents = {name: _extent(*bounds) for name, bounds in found["extents"].items()}
    cases = [(each["number"], tuple(map(_test, each["tests"]))) for each in found["cases"]]
    return Calls(found["threads"], found["share"], extents, cases)


def without(schedule: ir.Module) -> str:
    """A schedule as text, without what it says of calls."""
    bare = schedule.operation.clone(ip=False)
    if _KERNEL in bare.attributes:
        del bare.attributes[_KERNEL]
    return str(bare)


def parts(text: str) -> list[str]:
    """The modules of a schedule's text, which ``// -----`` is between."""
    return _SEPARATOR.split(text)


def _test_text(test: Test) -> str:
    values = {**asdict(test), "most": _ANY if test.most is None else test.most}
    extents = values.pop("extents")
    return f'{{extents = "{extents}", {", ".join(f"{name} = {value}" for name, value in values.items())}}}'


def _test(values: Mapping[str, Any]) -> Test:
    return Test(**{**values, "most": None if values["most"] == _ANY else values["most"]})


def _divisor(extent: Extent) -> int:
    return extent.multiple if isinstance(extent, Dim) else 1


def _extent(low: int, high: int, divisor: int) -> Extent:
    return low if low == high else Dim(low, high, divisor)
