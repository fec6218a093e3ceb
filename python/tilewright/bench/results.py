# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads and writes files of results: products and operators, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.bench import compare
from tilewright.bench.operators.results import Key as OperatorKey
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import MATMUL, Key, Row
from tilewright.errors import TilewrightError

Measurements = dict[Key | OperatorKey, Row | Result]
"""Every row and result of a file, in its order."""


def read(path: Path, where: str) -> Measurements:
    """Everything in a file.

    Args:
        path: The file.
        where: The option that names it, for the message.

    Raises:
        TilewrightError: It cannot be read, or is no such file.
    """
    return parse(compare.read(path, where))


def parse(objects: Iterable[Mapping[str, Any]]) -> Measurements:
    """Rows and results, of the objects that they are in JSON.

    Raises:
        TilewrightError: An object is neither.
    """
    found: Measurements = {}
    for each in objects:
        row = Row.from_json(each) if _operator(each) == MATMUL else Result.from_json(each)
        found[row.key] = row
    return found


def of_this_machine(path: Path, machine: str) -> Measurements:
    """What a file has for a run to go on with; nothing when it is not there.

    Raises:
        TilewrightError: It was measured on another machine, or as for `read`.
    """
    if not path.exists():
        return {}
    found = read(path, "--resume")
    others = dict.fromkeys(each.machine for each in found.values() if each.machine not in ("", machine))
    if others:
        raise TilewrightError(
            f"{path} was measured on {'; '.join(others)}, and this is {machine}",
            where="--resume",
            remedy="Write to another file, or compare the two with `tilewright bench compare`.",
        )
    return found


def rows(measured: Measurements) -> dict[Key, Row]:
    """The products."""
    return {each.key: each for each in measured.values() if isinstance(each, Row)}


def operators(measured: Measurements) -> dict[OperatorKey, Result]:
    """The operators."""
    return {each.key: each for each in measured.values() if isinstance(each, Result)}


def text(measured: Measurements) -> str:
    """The file: a list with one object a line, so that a change shows what was measured anew."""
    lines = ",\n".join(json.dumps(each.as_json(), ensure_ascii=False) for each in measured.values())
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def growing(measured: Measurements, write: Callable[[str], object]) -> Callable[[Row | Result], None]:
    """Writes everything anew with each measurement, so that a run that is broken off can be resumed."""
    every = dict(measured)

    def keep(new: Row | Result) -> None:
        every[new.key] = new
        write(text(every))

    return keep


def _operator(each: Mapping[str, Any]) -> Any:  # noqa: ANN401 (whatever the file has)
    """What an object is of; products of earlier releases do not say it."""
    return each.get("operator", MATMUL) if isinstance(each, Mapping) else MATMUL
