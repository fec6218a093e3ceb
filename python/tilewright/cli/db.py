# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright db``: the database of measured choices, its exchange with others, and its checks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tilewright import knobs
from tilewright.cli import options
from tilewright.errors import TilewrightError

database = click.option(
    "--database", metavar="FILE", help="The database, in place of the one that TILEWRIGHT_RECORDS names."
)


@options.verbs()
def db() -> None:
    """Exchange, check and shrink the measured choices of a machine."""


@options.verb(short_help="Add the trials of other files.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@database
def merge(files: tuple[str, ...], database: str | None) -> None:
    """Add the trials of databases and exported files, all of them or none.

    The order of files does not matter, nor how often one is merged.
    """
    from tilewright.records.database import Database, read

    found = [trial for file in files for trial in read(Path(file))]
    with Database(place(database)) as into:
        click.echo(f"{into.path}: {into.add(found)} new of {len(found)} trials")


@options.verb(short_help="Write all trials as lines of JSON.")
@click.option("-o", "output", required=True, metavar="FILE", help="Where to write; - is standard output.")
@database
def export(output: str, database: str | None) -> None:
    """Write all trials as sorted lines of JSON: databases with the same trials give the same bytes."""
    from tilewright.records.database import Database
    from tilewright.runtime import files

    files.require_writable(Path(output), "-o")
    with Database(place(database), create=False) as found:
        text = "".join(f"{line}\n" for line in found.lines())
    files.write(Path(output), text.encode(), "-o")


@options.verb(short_help="Keep the last comparison of each product only.")
@database
def prune(database: str | None) -> None:
    """Remove all trials but the last final comparison of each product, machine and number of threads."""
    from tilewright.records.database import Database

    with Database(place(database), create=False) as found:
        click.echo(f"{found.path}: {found.prune()} trials removed")


@options.verb(short_help="Check every trial.")
@click.argument("file", required=False, metavar="[FILE]")
@database
def verify(file: str | None, database: str | None) -> None:
    """Check a database, or FILE, a database or exported lines: every trial and its name. What is damaged is an error."""
    from tilewright.records.database import read

    where = place(database) if file is None else Path(file)
    click.echo(f"{where}: {len(read(where))} trials, all sound")


@options.verb(short_help="Say what there is.")
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@database
def stats(as_json: bool, database: str | None) -> None:
    """Say how many trials, products and machines there are, and how final comparisons ended."""
    from tilewright.records.database import Database

    with Database(place(database), create=False) as found:
        said = found.stats()
        if as_json:
            click.echo(json.dumps(asdict(said) | {"database": str(found.path)}, indent=2))
            return
        ended = ", ".join(f"{count} {verdict}" for verdict, count in sorted(said.verdicts.items())) or "none"
        click.echo(f"{found.path}: {said.trials} trials of {said.products} products on {said.machines} machines")
        click.echo(f"final comparisons with the model's choice: {ended}")


for _verb in (merge, export, prune, verify, stats):
    db.add_command(_verb)


def place(given: str | None) -> Path:
    """The database that is meant.

    Raises:
        TilewrightError: There is no home folder, and nothing else names one.
    """
    path = knobs.load().records if given is None else Path(given)
    if path is None:
        remedy = "Set TILEWRIGHT_RECORDS, or give --database"
        raise TilewrightError("there is no place for a database", expected="a home folder", remedy=remedy)
    return path
