# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the environment variables; a leaf that every stage may import.

``TILEWRIGHT_CACHE_DIR`` names the folder of compiled kernels; without it that is ``tilewright/kernels`` in
``XDG_CACHE_HOME`` or in ``~/.cache``. ``TILEWRIGHT_CACHE_LIMIT_MB`` bounds its size. ``TILEWRIGHT_NO_CACHE=1`` does without.
``TILEWRIGHT_COMPILE_TIMEOUT_S`` and ``TILEWRIGHT_COMPILE_MEMORY_MB`` bound the compilation of what came from a user.
``TILEWRIGHT_PEERS_DIR`` names the folder of the benchmark's peers; without it that is ``tilewright/peers`` beside the kernels'
default folder. ``TILEWRIGHT_DUMP`` names a folder to which each compilation writes its stages and the IR after each pass;
``TILEWRIGHT_TIME_PASSES=1`` prints how long passes take. ``TILEWRIGHT_PASSES`` names a file with the passes to be run behind a schedule,
or is ``required``: none but those that are needed. ``TILEWRIGHT_DEBUG_INFO=1`` gives kernels line tables, ``=text`` with the lines of
the printed schedule.
``TILEWRIGHT_COVERAGE`` names a folder in which processes write what of their kernels' code ran; these have line tables then.
``TILEWRIGHT_TRACE`` names a file to which a process appends which kernels it called, how often. ``TILEWRIGHT_RECORDS`` names the
database of measured choices; without it that is ``tilewright/records.sqlite`` in ``XDG_DATA_HOME`` or in ``~/.local/share``.
``TILEWRIGHT_NO_RECORDS=1`` does without, and without the choices that ship.
"""

from __future__ import annotations

import math
import os
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from tilewright.errors import LoweringError, TilewrightError

_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")
REQUIRED = "required"
"""The value of ``TILEWRIGHT_PASSES`` that leaves out each pass that only makes a kernel faster."""
_CACHE_LIMIT_MB = 512
_COMPILE_TIMEOUT_S = 60.0
_COMPILE_MEMORY_MB = 4096


_OVERRIDDEN: ContextVar[Mapping[str, str]] = ContextVar("overridden variables", default=MappingProxyType({}))


@contextmanager
def overridden(**variables: str) -> Iterator[None]:
    """Sets variables for what this thread compiles inside, the child processes that compile included; other threads see none of it."""
    token = _OVERRIDDEN.set({**_OVERRIDDEN.get(), **variables})
    try:
        yield
    finally:
        _OVERRIDDEN.reset(token)


def overrides() -> dict[str, str]:
    """The variables that are overridden here, for child processes."""
    return dict(_OVERRIDDEN.get())


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings of one moment.

    Attributes:
        cache_dir: Folder of the kernel cache; None when there is no home folder to put it in.
        cache_dir_named: Whether the user named that folder, so that it is an error when it cannot be used.
        cache_limit_mb: Most MiB that the cache may hold.
        no_cache: Whether the disk cache is left alone.
        compile_timeout_s: Most seconds that compiling a user's schedule may take.
        compile_memory_mb: Most MiB that it may take.
        peers_dir: Folder of the benchmark's Python environments; None when there is no home folder to put it in.
        dump_dir: Folder to which each compilation writes its stages and passes; None for nowhere.
        time_passes: Whether each pipeline of passes prints how long they took.
        passes: The file with the passes to be run behind a schedule, or `REQUIRED`; None for our pipelines.
        debug_info: Which lines of the schedule the line tables of kernels tell: "source", those of the file that it was written in;
            "text", those of the schedule as it is printed; empty: kernels have none.
        coverage: Folder in which a process writes which parts of its kernels' code ran; None for nowhere.
        trace: File to which a process appends which kernels it called, how often; None for nowhere.
        records: The database of measured choices; None when there is no home folder to put it in.
        no_records: Whether choices are the model's alone.
    """

    cache_dir: Path | None
    cache_dir_named: bool = False
    cache_limit_mb: int = _CACHE_LIMIT_MB
    no_cache: bool = False
    compile_timeout_s: float = _COMPILE_TIMEOUT_S
    compile_memory_mb: int = _COMPILE_MEMORY_MB
    peers_dir: Path | None = None
    dump_dir: Path | None = None
    time_passes: bool = False
    passes: str | None = None
    debug_info: str = ""
    coverage: Path | None = None
    trace: Path | None = None
    records: Path | None = None
    no_records: bool = False

    def pass_list(self) -> str:
        """The text of the list of passes that a compilation runs by, or `REQUIRED`; empty where it runs what it always does.

        Raises:
            LoweringError: It cannot be read.
        """
        if self.passes is None or self.passes == REQUIRED:
            return self.passes or ""
        try:
            with open(self.passes, encoding="utf-8") as file:
                return file.read() or "\n"
        except (OSError, ValueError) as error:
            raise LoweringError(
                f"cannot read {self.passes}: {error}",
                where="TILEWRIGHT_PASSES",
                expected=f"a passes.txt that TILEWRIGHT_DUMP has written, or {REQUIRED}",
            ) from None


def load(environ: Mapping[str, str] | None = None) -> Knobs:
    """The settings in `environ`, by default those of this process now, with what is overridden.

    Raises:
        TilewrightError: A variable has a value that means nothing; the error names the variable.
    """
    environ = ChainMap(overrides(), os.environ) if environ is None else environ
    named, peers = environ.get("TILEWRIGHT_CACHE_DIR"), environ.get("TILEWRIGHT_PEERS_DIR")
    dump, trace = environ.get("TILEWRIGHT_DUMP"), environ.get("TILEWRIGHT_TRACE")
    passes = environ.get("TILEWRIGHT_PASSES") or None
    coverage = environ.get("TILEWRIGHT_COVERAGE")
    return Knobs(
        cache_dir=_named_path(named) if named else _default_folder(environ, "kernels"),
        cache_dir_named=bool(named),
        cache_limit_mb=int(_number(environ, "TILEWRIGHT_CACHE_LIMIT_MB", _CACHE_LIMIT_MB, whole=True)),
        no_cache=_flag(environ, "TILEWRIGHT_NO_CACHE"),
        compile_timeout_s=_number(environ, "TILEWRIGHT_COMPILE_TIMEOUT_S", _COMPILE_TIMEOUT_S),
        compile_memory_mb=int(_number(environ, "TILEWRIGHT_COMPILE_MEMORY_MB", _COMPILE_MEMORY_MB, whole=True)),
        peers_dir=_named_path(peers) if peers else _default_folder(environ, "peers"),
        dump_dir=_named_path(dump) if dump else None,
        time_passes=_flag(environ, "TILEWRIGHT_TIME_PASSES"),
        passes=passes if passes in (None, REQUIRED) else str(_named_path(passes)),
        debug_info=_tables(environ) or ("source" if coverage else ""),
        coverage=_named_path(coverage) if coverage else None,
        trace=_named_path(trace) if trace else None,
        records=_records(environ),
        no_records=_flag(environ, "TILEWRIGHT_NO_RECORDS"),
    )


def records() -> tuple[Path | None, bool]:
    """`Knobs.records` and `Knobs.no_records` alone, for look-ups, which take a few microseconds.

    Raises:
        TilewrightError: As `load` does, of these.
    """
    changed = _OVERRIDDEN.get()
    environ = ChainMap(dict(changed), os.environ) if changed else os.environ
    return _records(environ), _flag(environ, "TILEWRIGHT_NO_RECORDS")


def _records(environ: Mapping[str, str]) -> Path | None:
    named = environ.get("TILEWRIGHT_RECORDS")
    if not named:
        return _data_file(environ.get("XDG_DATA_HOME", ""), environ.get("HOME", ""))
    return _absolute_path(named) if os.path.isabs(named) else _named_path(named)


def _tables(environ: Mapping[str, str]) -> str:
    """Which lines line tables tell."""
    if environ.get("TILEWRIGHT_DEBUG_INFO", "").strip().lower() == "text":
        return "text"
    return "source" if _flag(environ, "TILEWRIGHT_DEBUG_INFO") else ""


def _named_path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # "~someone" without a home
        return Path(text).absolute()


@lru_cache(maxsize=16)
def _absolute_path(text: str) -> Path:
    """A path whose parts and hash are known: look-ups take the same one each time."""
    return Path(text)


def _default_folder(environ: Mapping[str, str], name: str) -> Path | None:
    """A folder of what can be made again."""
    caches = _base_folder(environ.get("XDG_CACHE_HOME", ""), environ.get("HOME", ""), ".cache")
    return None if caches is None else caches / "tilewright" / name


@lru_cache(maxsize=16)
def _data_file(named: str, home: str) -> Path | None:
    """The file of what took long to measure, by the values of the variables."""
    data = _base_folder(named, home, ".local/share")
    return None if data is None else data / "tilewright" / "records.sqlite"


def _base_folder(named: str, home: str, in_home: str) -> Path | None:
    """As the XDG base directory specification says: relative paths do not count."""
    folder = Path(named)
    if folder.is_absolute():
        return folder
    return Path(home) / in_home if Path(home).is_absolute() else None


def _number(environ: Mapping[str, str], name: str, default: float, *, whole: bool = False) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise TilewrightError(f"{text!r}", where=name, expected=f"a{' whole' if whole else ''} number above zero")
    return number


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").strip().lower()
    if text not in (*_YES, *_NO):
        raise TilewrightError(
            f"{text!r}", where=name, expected=f"one of {', '.join(_YES)} or {', '.join(filter(None, _NO))}"
        )
    return text in _YES
