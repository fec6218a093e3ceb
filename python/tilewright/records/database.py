# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The database of a machine's trials: one SQLite file, which any number of processes read and write at once.

SQLite's write-ahead log keeps readers and writers apart; each trial is one transaction, so that a process that is killed loses at most
the trial that it was writing. A row has the trial's canonical line, and beside it only what finds it. Files for exchange are these
lines, sorted: merging is a union of lines, the same in any order and however often it is done.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright import text_files
from tilewright.records import trial as trials
from tilewright.records.trial import RecordError, Trial, canonical

_APPLICATION = 0x7477_6462
"""What tells the file from other SQLite files ("twdb")."""
_BUSY_S = 30.0
_TABLE = (
    "CREATE TABLE trial (name TEXT PRIMARY KEY, machine TEXT NOT NULL, spec TEXT NOT NULL, threads INTEGER NOT NULL,"
    " final INTEGER NOT NULL, moment TEXT NOT NULL, line TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX of_product ON trial (machine, spec, threads, final, moment, name)",
)
_INSERT = "INSERT OR IGNORE INTO trial VALUES (?, ?, ?, ?, ?, ?, ?)"
_REMEDY = "Move the file away, and merge what `tilewright db export` wrote of it before"


@dataclass(frozen=True, slots=True)
class Stats:
    """What a database holds.

    Attributes:
        trials: How many.
        products: Of how many specs, by threads and machine.
        machines: Of how many machines.
        verdicts: How many final comparisons ended so.
    """

    trials: int
    products: int
    machines: int
    verdicts: dict[str, int]


class Database:
    """An open database; `close` it, or use it in a ``with`` statement."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Opens the file, which is made where it is absent, with its folder.

        Raises:
            RecordError: It is no database of trials, or is damaged, or cannot be opened.
        """
        self.path = path
        if not create and not path.exists():
            raise RecordError("there is no such file", where=str(path), expected="a database of trials")
        try:
            if not path.exists():
                _make(path)
            self._connection = _open(path)
        except (OSError, sqlite3.Error) as error:
            raise RecordError(f"cannot open it: {error}", where=str(path), expected="a database of trials") from None
        with self._told():
            if self._connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                self._connection.close()
                raise RecordError("it is a database of something else", where=str(path), remedy="Name another file")
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def __enter__(self) -> Database:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self.close()

    def add(self, added: Iterable[Trial]) -> int:
        """Adds trials, in one transaction; those that are there already are left alone. Returns how many were new."""
        rows = [_row(each) for each in added]
        with self._told():
            before = self._connection.total_changes
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(_INSERT, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            return self._connection.total_changes - before

    def latest(self, machine: str, spec: str, threads: int) -> Trial | None:
        """The last final comparison for a spec on a machine; of two of one second that of the larger name."""
        with self._told():
            row = self._connection.execute(
                "SELECT line FROM trial WHERE machine = ? AND spec = ? AND threads = ? AND final = 1"
                " ORDER BY moment DESC, name DESC LIMIT 1",
                (machine, spec, threads),
            ).fetchone()
        return None if row is None else _parsed(row[0], str(self.path))

    def of(self, machine: str, spec: str, threads: int) -> list[Trial]:
        """All trials for a spec on a machine, in the order of their time."""
        with self._told():
            rows = self._connection.execute(
                "SELECT line FROM trial WHERE machine = ? AND spec = ? AND threads = ? ORDER BY moment, name",
                (machine, spec, threads),
            ).fetchall()
        return [trials.parse(line, str(self.path)) for (line,) in rows]

    def lines_of(self, spec: str, threads: int) -> list[str]:
        """The lines of all trials for a spec, on any machine, in the order of their time."""
        with self._told():
            rows = self._connection.execute(
                "SELECT line FROM trial WHERE spec = ? AND threads = ? ORDER BY moment, name", (spec, threads)
            ).fetchall()
        return [line for (line,) in rows]

    def lines(self) -> Iterator[str]:
        """The lines of all trials, in the order of their names: what is exported."""
        with self._told():
            yield from (line for (line,) in self._connection.execute("SELECT line FROM trial ORDER BY name"))

    def prune(self) -> int:
        """Removes all but the last final comparison of each spec, machine and threads; returns how many went."""
        with self._told():
            before = self._connection.total_changes
            self._connection.execute(
                "DELETE FROM trial WHERE name NOT IN (SELECT name FROM (SELECT name, row_number() OVER"
                " (PARTITION BY machine, spec, threads ORDER BY final DESC, moment DESC, name DESC) AS place"
                " FROM trial WHERE final = 1) WHERE place = 1)"
            )
            removed = self._connection.total_changes - before
            self._connection.execute("VACUUM")
            return removed

    def verify(self) -> int:
        """Checks the file, and every trial against its name; returns how many there are.

        Raises:
            RecordError: Something is damaged.
        """
        with self._told():
            said = self._connection.execute("PRAGMA integrity_check").fetchone()[0]
            if said != "ok":
                raise RecordError(f"it is damaged: {said}", where=str(self.path), remedy=_REMEDY)
            rows = self._connection.execute("SELECT * FROM trial").fetchall()
        for row in rows:
            if _row(trials.parse(row[-1], str(self.path))) != row:
                raise RecordError(f"trial {row[0]} was changed", where=str(self.path), remedy=_REMEDY)
        return len(rows)

    def stats(self) -> Stats:
        """What it holds."""
        found = [trials.parse(line, str(self.path)) for line in self.lines()]
        products = {(trials.machine_key(each), canonical(each.spec), each.threads) for each in found}
        verdicts = Counter(each.verdict for each in found if each.final)
        return Stats(len(found), len(products), len({key for key, _, _ in products}), dict(verdicts))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raises `RecordError` for what SQLite says."""
        try:
            yield
        except sqlite3.Error as error:
            raise RecordError(
                f"{error}", where=str(self.path), expected="a database of trials", remedy=_REMEDY
            ) from None


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _make(path: Path) -> None:
    """Makes an empty database, unless another process does first.

    It is made whole under another name: SQLite does not wait for other processes where a file changes to write-ahead logging.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder) / path.name
        connection = _open(new)
        for statement in ("PRAGMA journal_mode = WAL", *_TABLE, f"PRAGMA application_id = {_APPLICATION}"):
            connection.execute(statement)
        connection.close()
        with suppress(FileExistsError):
            path.hardlink_to(new)


@lru_cache(maxsize=1024)
def _parsed(line: str, where: str) -> Trial:
    """As `trials.parse`, once a line."""
    return trials.parse(line, where)


def _row(trial: Trial) -> tuple[str, str, str, int, int, str, str]:
    key, spec = trials.machine_key(trial), canonical(trial.spec)
    return trial.name, key, spec, trial.threads, int(trial.final), trial.moment, trial.line


def read_lines(path: Path) -> list[Trial]:
    """The trials of a file of lines, as `Database.lines` has them: all of them, or an error.

    Raises:
        RecordError: It cannot be read, or one of its lines is no trial, or the last one is cut short.
    """
    try:
        text = text_files.read(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise RecordError(f"cannot read it: {reason}", where=str(path), expected="lines of trials") from None
    if text and not text.endswith("\n"):
        raise RecordError("the last line is cut short", where=str(path), expected="whole lines", remedy="Copy it again")
    return [trials.parse(line, f"{path}:{number}") for number, line in enumerate(text.splitlines(), 1)]


def read(path: Path) -> list[Trial]:
    """The trials of a database, or of a file of lines.

    Raises:
        RecordError: It is neither, or damaged.
    """
    try:
        with path.open("rb") as file:
            is_database = file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise RecordError(
            f"cannot read it: {error.strerror}", where=str(path), expected="a database of trials"
        ) from None
    if not is_database:
        return read_lines(path)
    with Database(path, create=False) as found:
        found.verify()
        return [trials.parse(line, str(path)) for line in found.lines()]
