# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright tune --target``, for a GPU: sizes ranked by a model, which says that nothing was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import output

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.payload.spec_tables import Spec
    from tilewright.targets import GpuTarget
    from tilewright.tuning.on_card import Measured
    from tilewright.tuning.on_paper import Ranked, Ranking

_SHOWN = 5
_HOW = "ranked by the static model, not measured: nothing is recorded"


def tune(wanted: Sequence[Spec], target: GpuTarget, budget: float, executor: Executor | None = None) -> int:
    """Ranks sizes of kernels for a GPU, and prints the likeliest of each; 1 where some were wrong when tried, or could not be.

    Args:
        wanted: What to compute.
        target: The GPU.
        budget: Seconds each.
        executor: Who compiles and tries; None: this process.
    """
    from tilewright.processes.calls import each
    from tilewright.tuning import on_card, on_paper

    failed = 0
    with output.progress_bar() as tell:
        if executor is not None:
            ended = each(on_paper.rank, [(spec, target, budget) for spec in wanted], executor)
            for count, (number, found) in enumerate(ended, 1):
                spec = wanted[number]
                tell(count, len(wanted), f"{spec}")
                if isinstance(found, on_paper.Ranking):
                    failed += _show(f"{spec} for {target.name}", found)
                else:
                    failed += 1
                    click.echo(f"{spec}: a worker {found.reason}, whoever tried")
            return 1 if failed else 0
        for number, spec in enumerate(wanted):

            def told(part: float, number: int = number, spec: Spec = spec) -> None:
                tell(100 * (number + part), 100 * len(wanted), f"{spec}")

            ranking = on_paper.rank(spec, target, budget, told)
            failed += _show(f"{spec} for {target.name}", ranking)
            if on_card.has_card(target):
                _show_measured(on_card.measure(spec, target, ranking, told))
    return 1 if failed else 0


def tune_own(spec: Spec, target: GpuTarget, schedule: str, budget: float, tuned: str | None) -> int:
    """Ranks the choices that a schedule leaves open, and prints the likeliest; 1 where some were wrong when tried.

    Args:
        spec: What to compute.
        target: The GPU.
        schedule: A .py or .mlir file.
        budget: Seconds, about.
        tuned: Where to write the schedule with the likeliest choices; None: nowhere.
    """
    from tilewright.runtime import files
    from tilewright.tuning import own_on_paper

    with output.progress_bar() as tell:

        def told(part: float) -> None:
            tell(100 * part, 100, f"{spec}")

        ranking, timed, text = own_on_paper.rank(spec, target, schedule, budget, told)
    wrong = _show(f"{spec} for {target.name}", ranking)
    if timed:
        _show_measured(timed)
    if tuned is not None:
        files.write(Path(tuned), text.encode(), "-o")
    return int(wrong)


def _show(what: str, ranking: Ranking) -> bool:
    """Prints the likeliest sizes; whether some were wrong when tried."""
    found = ranking.found
    click.echo(f"{what}: {len(found)} sizes {_HOW}")
    for place, each in enumerate(found, 1):
        if place <= _SHOWN or each.right is False:
            click.echo(f"  {place}. {_said(each)}")
    if ranking.refused:
        click.echo(f"  {len(ranking.refused)} others do not compile; the likeliest: {ranking.refused[0]}")
    return any(each.right is False for each in found)


def _show_measured(found: Sequence[Measured]) -> None:
    """Prints what was timed on the card, the fastest first."""
    click.echo(f"  timed on the card here in turn with the usual choice, {len(found)} in all, the fastest first:")
    for each in found[:_SHOWN]:
        sizes = output.sizes_text(each.ranked.sizes) if each.ranked.sizes else "the usual sizes"
        is_usual = each.times.samples == each.times.first
        beside = (
            "the usual choice" if is_usual else f"{each.times.gain:.2f} times the usual choice, {each.times.verdict}"
        )
        click.echo(f"  {each.seconds * 1e6:.1f} us: {each.ranked.strategy} {sizes}: {beside}")


def _said(each: Ranked) -> str:
    """Sizes, and what is known of them."""
    facts = [f"{each.cycles:.0f} cycles predicted", f"{each.shared_bytes} bytes of shared memory"]
    if each.registers is not None:
        facts.append(f"{each.registers} registers, {each.spills} bytes spilled")
    facts.append({True: "right when tried", False: "WRONG when tried", None: "not tried"}[each.right])
    sizes = output.sizes_text(each.sizes) if each.sizes else "the usual sizes"
    return f"{each.strategy} {sizes}: {', '.join(facts)}"
