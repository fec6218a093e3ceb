# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright targets``: every known target, and what this machine can do with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from tilewright.cli import options
from tilewright.targets import Availability, Target
from tilewright.targets.registry import GPUS

_GPUS = {
    "nvidia": "run on a card, or by the emulator, --device emulated",
    "vulkan": "run on a Vulkan device",
    "amd": "run by the emulator, --device emulated",
}
"""By family of GPUs, what becomes of their kernels here."""
_FACTS = (
    *("rates", "model_cpu", "fma_per_cycle", "fma_latency", "loads_per_cycle"),
    *("vector_bits", "vector_registers", "scalable_bits", "streaming_bits"),
)
"""What ``--json`` says of a target besides its name and features."""
_NARROW = 72
"""Columns of a terminal that are too few for tables of three columns and more."""


@options.verb(short_help="List the targets, and what this machine can run.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of a table.")
@click.option("--types", is_flag=True, help="Say what each target does with each pair of element types.")
@click.option(
    "--check",
    is_flag=True,
    help="Measure what this core starts in a cycle, and compare it with its row; status 1 if they differ.",
)
def targets(as_json: bool, types: bool, check: bool) -> int:
    """List the targets, and say which of them this machine can run.

    With --check, the multiply-adds of each kind and the loads that this core starts in a cycle, and the cycles of a multiply-add, are
    measured beside what its row says. Exits with status 1 when they contradict each other.
    """
    import tilewright as tw

    if check:
        if types:
            raise click.UsageError("--types and --check given; expected one of them")
        return _check(as_json=as_json)

    if types:
        _print_types(as_json=as_json)
        return 0
    known = tw.targets()
    if as_json:
        click.echo(json.dumps([_object(each) for each in known], indent=2))
        return 0
    _print_table(known)
    return 0


def _check(*, as_json: bool) -> int:
    """Measures the host's core, and prints it beside its row; 1 where a row of this very core is wrong."""
    from tilewright.bench import issue
    from tilewright.targets import resolve

    host = resolve("host")
    facts = issue.check(host)
    wrong = not host.is_level and not all(each.agrees for each in facts)
    if as_json:
        click.echo(json.dumps([each.as_json() | {"rates": host.rates} for each in facts], indent=2))
        return 1 if wrong else 0
    from tilewright.cli.output import console, lines_table, print_whole

    different = "differs: another core" if host.is_level else "CONTRADICTS"
    table = lines_table(("row", "what", "claim", "measured", "verdict"), right=("claim", "measured"))
    for each in facts:
        claim, measured = f"{each.claim:.3g}", f"{each.measured:.2f}"
        table.add_row(each.row, each.what, claim, measured, "agrees" if each.agrees else different)
    out = console()
    print_whole(out, table)
    out.print(f"The row's rates are those of {host.rates}", soft_wrap=True)
    if wrong:
        remedy = "dataclasses.replace(tw.targets.resolve('host'), …) makes one that is right"
        out.print(f"The row is wrong for this core: {remedy}", soft_wrap=True)
    return 1 if wrong else 0


def _print_types(*, as_json: bool) -> None:
    """What is widened to what, and what multiplies, by target and by types."""
    from tilewright.bench.type_cells import cells
    from tilewright.targets import all as every

    rows = [(target, cells(target)) for target in (*every(), *GPUS)]
    if as_json:
        found = [{"target": target.name, **asdict(each), "native": each.native} for target, row in rows for each in row]
        click.echo(json.dumps(found, indent=2))
        return
    shown = []
    for target, row in rows:
        alike: dict[str, list[str]] = {}
        for each in row:
            alike.setdefault(str(each), []).append("×".join(dict.fromkeys(each.types)))
        for number, (how, types) in enumerate(alike.items()):
            shown.append(("" if number else target.name, ", ".join(types), how))
    _print_rows(("target", "A × B", "how they are multiplied"), shown)


def _object(each: Availability) -> dict[str, object]:
    """A row of ``--json``."""
    target = each.target
    return {
        **{name: getattr(target, name) for name in ("name", "base", "family", "triple")},
        "features": sorted(target.features),
        **{name: getattr(target, name) for name in _FACTS},
        "runs_here": each.runs,
        "missing": list(each.missing),
    }


def _print_table(known: tuple[Availability, ...]) -> None:
    """The table for people; features that a row shares with the one before it are not repeated."""
    from tilewright.cli.output import console

    shown = []
    before: frozenset[str] = frozenset()
    rows = [each for each in known if each.target.name != "host"]
    for each in rows:
        target = each.target
        new = sorted(target.features - before)
        more = before < target.features and before
        shown.append(
            (
                target.name,
                f"{target.vector_registers} × {target.vector_bits} bit{_lengths(target)}",
                "runs it" if each.runs else f"cannot: lacks {', '.join(each.missing)}",
                ("those above, " if more else "") + ", ".join(new),
            )
        )
        before = target.features
    _print_rows(("target", "vectors", "this machine", "features"), shown)
    out = console()
    cards = ", ".join(f"{card.name} ({_GPUS[card.family]})" for card in GPUS)
    out.print(f"GPUs are {cards}", soft_wrap=True)
    for each in known:
        if each.target.name == "host":
            out.print(_host_line(each), soft_wrap=True)


def _print_rows(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table, nothing of which is cut off: on a narrow terminal, cells behind the first stand below one another."""
    from rich import box
    from rich.table import Table

    from tilewright.cli.output import console

    out = console()
    if out.width < _NARROW:
        headers, rows = (headers[0], ", ".join(headers[1:])), [(name, "\n".join(cells)) for name, *cells in rows]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=not number, overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _lengths(target: Target) -> str:
    """The bits of vectors whose length is the machine's, as the target's machines have them."""
    kinds = (("scalable", target.scalable_bits), ("streaming", target.streaming_bits))
    return "".join(f", {name} {bits}" for name, bits in kinds if bits)


def _host_line(each: Availability) -> str:
    """What this machine is."""
    target = each.target
    caches = [f"L1 {target.l1.bytes >> 10} KiB", f"L2 {target.l2.bytes >> 10} KiB"]
    if target.l3:
        caches.append(f"L3 {target.l3.bytes >> 20} MiB")
    return f"host is {target.base} with {', '.join(caches)}, and all features: {', '.join(sorted(target.features))}"
