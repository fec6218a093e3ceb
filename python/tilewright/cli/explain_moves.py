# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the loops of a kernel move, for ``explain``: by loop and by cache, and beside measured time where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.output import duration
from tilewright.lab import moves

if TYPE_CHECKING:
    from tilewright.cli.problem import Problem
    from tilewright.emit.mca import Analysis
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

    def as_json(self) -> dict[str, Any]:
        """Both, for programs."""
        return {"predicted": dict(self.predicted), "measured": self.measured}

    @property
    def slowest(self) -> str:
        """The part that takes longest."""
        return max(self.predicted, key=lambda name: self.predicted[name])

    @property
    def is_apart(self) -> bool:
        """Whether the measured time is not that of the slowest part."""
        return abs(self.measured - self.predicted[self.slowest]) > _APART * self.measured


@dataclass(frozen=True, slots=True)
class Moved:
    """What a kernel moves, and what that takes.

    Attributes:
        nest: Its loops.
        target: For which target it is.
        threads: Most threads of a call.
        levels: The time by part of the machine; None where it was not measured.
        tiles: Where tile registers multiply, how many tiles of each operand a call loads from each level; otherwise None.
    """

    nest: Nest
    target: Target
    threads: int
    levels: Levels | None
    tiles: dict[str, dict[str, int]] | None = None

    def text(self) -> str:
        """What a person reads."""
        found = text(self.nest, self.target, self.levels)
        return found if self.tiles is None else found + _text_of_tiles(self.tiles)

    def facts(self) -> dict[str, Any]:
        """What a program may want to know."""
        moved = {"accesses": self.nest.moved(0), **moves.beyond(self.nest, self.target)}
        facts = {"loops": moves.loops(self.nest, self.target), "moved_beyond": moved, "seconds": self._seconds()}
        return facts if self.tiles is None else facts | {"tile_loads": self.tiles}

    def as_json(self) -> dict[str, Any]:
        """What the page shows."""
        return moves.as_json(self.nest, self.target, self.threads) | {"seconds": self._seconds()}

    def _seconds(self) -> dict[str, Any] | None:
        return None if self.levels is None else self.levels.as_json()


def of(problem: Problem, texts: Mapping[str, str], analysis: Analysis | None, *, measure: bool) -> Moved | None:
    """What a product's kernel moves; None where that is not known.

    Raises:
        click.UsageError: It is to be measured, and cannot.
        TargetError: This machine does not run it.
    """
    nest = moves.read(problem.spec, texts)
    if not measure:
        return nest and Moved(nest, problem.target, problem.threads, None, _tile_loads(problem))
    if nest is None or analysis is None:
        raise click.UsageError("--measure given for what is not modeled; expected static extents, and loops")
    levels = measured(problem, nest, analysis.percent_of_bound)
    return Moved(nest, problem.target, problem.threads, levels, _tile_loads(problem))


def measured(problem: Problem, nest: Nest, percent_of_bound: float) -> Levels:
    """Measures the kernel, this machine's peak and its bandwidths, and predicts each part's time from these, on a core for each thread.

    Args:
        problem: What is measured.
        nest: What it moves.
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
        seconds, _ = median_of(trial)
    peak = Peak(target, (spec.a_type.name, spec.b_type.name), chosen)
    rate = peak.sample(peak.calibrate(0.02))
    peak.close()
    speeds = bandwidth.by_level(target, chosen)
    predicted = {"ports": problem.flops / (rate * percent_of_bound / 100)}
    for name, moved in moves.came_from(nest, target, threads).items():
        if name in speeds:
            predicted[name] = moved / (speeds[name] * 1e9)
    return Levels(predicted, seconds)


def text(nest: Nest, target: Target, levels: Levels | None) -> str:
    """What a person reads."""
    lines = ["What an iteration of each loop touches, each byte once, and what the next one uses again:", ""]
    lines += [_nested(loop) for loop in moves.loops(nest, target)]
    sizes = moves.caches(target)
    names = ["all accesses", *(f"beyond {name}, {_size(size)}" for name, size in sizes.items())]
    moved = [nest.moved(0), *moves.beyond(nest, target).values()]
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


def _nested(loop: Mapping[str, Any]) -> str:
    """A loop in a line."""
    how = f"{loop['name']} by {loop['step']}, {loop['trips']:.4g} times"
    if shares := loop["shares"]:
        how = f"{loop['trips']:.4g} {loop['name']}, {min(shares):.4g} to {max(shares):.4g} tiles each"
    head = f"{'  ' * loop['depth']}{how}"
    touched = ", ".join(f"{name} {_size(count)}" for name, count in loop["touched"].items() if count >= 1)
    again = f"; {' and '.join(loop['reused'])} again, from {loop['fits']}" if loop["reused"] else ""
    return f"{head:<40} {touched}; {_size(loop['moved'])} in all{again}"


def _tile_loads(problem: Problem) -> dict[str, dict[str, int]] | None:
    """How many tiles of each operand a call loads, from each cache and from beyond L2, as the model of blocks has it.

    None where no tile registers multiply, or extents are dynamic.
    """
    from tilewright.schedules import select
    from tilewright.schedules.models import tiled
    from tilewright.schedules.models.sizes import Blocking

    spec, target = problem.spec, problem.target
    if spec.dynamic or not target.dot(*spec.multiplied).is_tile or not select.is_in_panels(problem.schedule):
        return None
    return tiled.tile_loads(spec, target, Blocking(**problem.sizes))


def _text_of_tiles(found: Mapping[str, Mapping[str, int]]) -> str:
    """What a person reads of them."""
    levels = ("L1", "L2", "beyond")
    lines = ["", "Tiles that are loaded, of up to 1 KiB:", "", " " * 16 + "".join(f"{level:>14}" for level in levels)]
    lines += [f"{name:<16}" + "".join(f"{counts[level]:>14,}" for level in levels) for name, counts in found.items()]
    sums = [sum(counts[level] for counts in found.values()) for level in levels]
    return "\n".join([*lines, f"{'sum':<16}" + "".join(f"{each:>14,}" for each in sums)]) + "\n"


def _size(count: float) -> str:
    """Bytes, for people."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.4g} B"
