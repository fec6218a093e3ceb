# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the choice that won on this machine for a spec: in the user's database, or in what ships with the package.

A look-up takes some tens of microseconds: a database stays open, and what was read of a record is kept.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tilewright import knobs
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec
from tilewright.records import machine, trial
from tilewright.records.database import Database, read_lines
from tilewright.records.trial import Trial, canonical
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

SHIPPED = Path(__file__).parent / "shipped"
"""The folder of the tuned defaults that ship: a file of lines for each machine, called by its digest."""


@dataclass(frozen=True, slots=True)
class Found:
    """A final comparison.

    Attributes:
        trial: It.
        shipped: Whether it is one of the package's.
    """

    trial: Trial
    shipped: bool

    def __str__(self) -> str:
        """Where it is from, for people."""
        where = "a record that ships with tilewright" if self.shipped else "this machine's database"
        return f"{where}: {self.trial.gain:.2f} times the model's choice, {self.trial.moment[:10]}"


@lru_cache(maxsize=4096)
def text(spec: Spec) -> str | None:
    """The canonical text of a spec; None for one that records cannot hold: one with dynamic extents or Python functions in it.

    Of a deterministic spec the order of sums is not to change with a measurement: it has none either.
    """
    if spec.dynamic or spec.is_empty or (isinstance(spec, MatmulSpec) and spec.deterministic):
        return None
    table = spec_tables.table(spec)
    return None if table is None else canonical(table)


def find(spec: Spec, target: Target, threads: int) -> Found | None:
    """The last final comparison of a spec for a machine just like `target`; None where there is none, or records are not to be used.

    Raises:
        RecordError: The database is damaged.
        TilewrightError: A variable of the environment has a value that means nothing.
    """
    path, without = knobs.records()
    said = text(spec)
    if without or said is None or target.emulation is not None:
        return None
    key = machine.key(target)
    database = opened(path)
    found = None if database is None else database.latest(key, said, threads)
    if found is not None:
        return Found(found, shipped=False)
    default = _shipped(key).get((said, threads))
    return None if default is None else Found(default, shipped=True)


def opened(path: Path | None) -> Database | None:
    """The database at a path, kept open in this process; None where there is none."""
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    # A connection is no other process's, nor of a file that took the place of the one that it was made for.
    return _open(path, status.st_ino, os.getpid())


@lru_cache(maxsize=4)
def _open(path: Path, _inode: int, _process: int) -> Database:
    return Database(path)


@lru_cache(maxsize=4)
def _shipped(key: str) -> dict[tuple[str, int], Trial]:
    """What ships for a machine: the last final comparisons, by spec and threads."""
    file = SHIPPED / f"{key}.jsonl"
    if not file.exists():
        return {}
    finals = sorted((each.moment, each.name, each) for each in read_lines(file) if each.final)
    return {(canonical(each.spec), each.threads): each for _, _, each in finals if trial.machine_key(each) == key}
