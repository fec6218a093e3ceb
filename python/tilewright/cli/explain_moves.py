# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the loops of a kernel move, for ``explain``: by loop and by cache, and beside measured time where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.cli import explain_tiles
from tilewright.cli.output import duration

if TYPE_CHECKING:
    from tilewright.cli.problem import Problem
    from tilewright.emit.traffic import Nest
    from tilewright.targets import Target

_APART = 0.15
"""By what share of the measured time a prediction may be off before that is said."""


@dataclass(frozen=True, slots=True)
class Levels:
    """What a call takes by each part of the machine, if the others cost nothing, and what it takes.

    Attributes:
        predicted: Seconds, by part: the ports of the core, and each level that data comes from.
        measured: Seconds of a call.
    """

    predicted: Mapping[str, float]
    measured: float

    @property
    def slowest(self) -> str:
        """The part that takes longest."""
        return max(self.predicted, key=lambda name: self.predicted[name])

    @property
    def is_apart(self) -> bool:
        """Whether the measured time is not that of the slowest part."""
        return abs(self.measured - self.predicted[self.slowest]) > _APART * self.measured


def read(problem: Problem, texts: Mapping[str, str]) -> Nest | None:
    """The nest of a product's kernel; None where what it moves is not known here."""
    from tilewright.build import contexts
    from tilewright.emit import traffic
    from tilewright.mlir import ir

    text = texts.get("bufferized", "")
    if not text or "// -----" in text:
        return None
    further = [f"operand {number}" for number in range(3, len(problem.spec.operands) + 1)]
    with contexts.new() as context, ir.Location.unknown():
        return traffic.read(ir.Module.parse(text, context), ["A", "B", *further, "C"], problem.sizes)


def caches(target: Target) -> dict[str, int]:
    """The bytes of each cache of a target."""
    found = {"L1": target.l1.bytes, "L2": target.l2.bytes}
    return found | ({"L3": target.l3.bytes} if target.l3 is not None else {})


def is_private(cache: str) -> bool:
    """Whether each core has a cache of that name of its own."""
    return cache != "L3"


def measure(problem: Problem, nest: Nest, flops: float, percent_of_bound: float) -> Levels:
    """Measures the kernel, this machine's peak and its bandwidths, and predicts each part's time from these, on a core for each thread.

    Args:
        problem: What is measured.
        nest: What it moves.
        flops: The operations of a call.
        percent_of_bound: Of the multiply-add bound, that of its hot loop.

    Raises:
        TargetError: This machine cannot run it.
    """
    import tilewright as tw
    from tilewright.bench import bandwidth
    from tilewright.bench.peak import Peak
    from tilewright.bench.timing import cores, median_of, pinned
    from tilewright.runtime.trial import Trial
    from tilewright.targets import require_runnable

    require_runnable(problem.target)
    spec, target, threads = problem.spec, problem.target, problem.plan.threads
    chosen = cores(threads)
    kernel = tw.compile(spec, target, threads, problem.schedule, parameters=problem.sizes or None)
    trial = Trial.random(kernel, spec, 0)
    trial()
    with pinned(chosen):
        measured, _ = median_of(trial)
    peak = Peak(target, (spec.a_type.name, spec.b_type.name), chosen)
    rate = peak.sample(peak.calibrate(0.02))
    peak.close()
    speeds = bandwidth.by_level(target, chosen)
    predicted = {"ports": flops / (rate * percent_of_bound / 100)}
    held, last = 0, ""
    for name, speed in speeds.items():
        if nest.footprint > held * (threads if is_private(last) else 1):  # Otherwise it is there from the call before.
            predicted[name] = sum(nest.moved(held, private=is_private(last)).values()) / (speed * 1e9)
        held, last = caches(target).get(name, held), name
    return Levels(predicted, measured)


def text(nest: Nest, target: Target, levels: Levels | None) -> str:
    """What a person reads."""
    lines = ["What an iteration of each loop touches, each byte once:", ""]
    for number, loop in enumerate(nest.loops):
        touched = ", ".join(f"{name} {_size(count)}" for name, count in nest.touched(number).items() if count >= 1)
        how = f"{loop.name} by {loop.step}, {loop.trips:.4g} times"
        if loop.shares:
            how = f"{loop.trips:.4g} {loop.name}, {min(loop.shares):.4g} to {max(loop.shares):.4g} tiles each"
        head = f"{'  ' * loop.depth}{how}"
        lines.append(f"{head:<40} {touched}")
    sizes = caches(target)
    names = ["all accesses", *(f"beyond {name}, {_size(size)}" for name, size in sizes.items())]
    moved = [nest.moved(0), *(nest.moved(size, private=is_private(name)) for name, size in sizes.items())]
    lines += ["", "What a call moves:", "", " " * 16 + "".join(f"{name:>22}" for name in names)]
    for buffer in nest.buffers:
        lines.append(f"{buffer:<16}" + "".join(f"{_size(each.get(buffer, 0)):>22}" for each in moved))
    lines.append(f"{'sum':<16}" + "".join(f"{_size(sum(each.values())):>22}" for each in moved))
    if any(loop.shares for loop in nest.loops):
        balance = min(loop.balance for loop in nest.loops)
        lines += [
            "",
            f"Of all threads together; L1 and L2 are each core's own. The least even share keeps threads busy {balance:.0%}.",
        ]
    if levels is not None:
        lines += [
            "",
            "Time of a call after others, if nothing else cost time, by measured peak and bandwidths of these cores:",
            "",
        ]
        lines += [f"{name:<16}{duration(seconds):>12}" for name, seconds in levels.predicted.items()]
        lines += [f"{'measured':<16}{duration(levels.measured):>12}"]
        if levels.is_apart:
            slower = levels.measured > levels.predicted[levels.slowest]
            why = (
                "the parts do not overlap, or cost what is not modeled"
                if slower
                else "the model has them cost too much"
            )
            lines += ["", f"Measured and predicted ({levels.slowest}) part by more than {_APART:.0%}: {why}."]
    return "\n".join(lines) + "\n"


def facts(nest: Nest, target: Target, levels: Levels | None) -> dict[str, Any]:
    """What a program may want to know."""
    loops = [
        {
            "name": loop.name,
            "depth": loop.depth,
            "step": loop.step,
            "trips": loop.trips,
            "shares": list(loop.shares),
            "touched": nest.touched(number),
        }
        for number, loop in enumerate(nest.loops)
    ]
    moved = {"accesses": nest.moved(0)} | {
        name: nest.moved(size, private=is_private(name)) for name, size in caches(target).items()
    }
    times = None if levels is None else {"predicted": dict(levels.predicted), "measured": levels.measured}
    return {"loops": loops, "moved_beyond": moved, "seconds": times}


def drawing(problem: Problem) -> str | None:
    """The blocks of a schedule as SVG; None where extents are dynamic, or the schedule has no register tile."""
    spec, target = problem.spec, problem.target
    m, n, k = (each if isinstance(each, int) else 0 for each in (spec.m, spec.n, spec.k))
    elements = {"A": spec.a_type, "B": spec.b_type, "C": spec.c_type}
    bytes_of = {name: max(1, each.bits // 8) for name, each in elements.items()}
    levels = explain_tiles.levels((m, n, k), problem.sizes, target.lanes(spec.acc_type), bytes_of, caches(target))
    return explain_tiles.svg(levels) if levels else None


def _size(count: float) -> str:
    """Bytes, for people."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.4g} B"
