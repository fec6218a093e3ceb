# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what ``TILEWRIGHT_TRACE`` wrote: the kernels that a program called, and how often."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tilewright import text_files
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec

_EXPECTED = "a line of JSON that TILEWRIGHT_TRACE wrote"


@dataclass(frozen=True, slots=True)
class Traced:
    """What a trace holds.

    Attributes:
        calls: The specs of the kernels that were called, the one of most calls first, with how often.
        skipped: What else was called, which has no spec that can be written down: modules, and epilogues that are Python functions.
    """

    calls: dict[Spec, int]
    skipped: tuple[str, ...]


def read(path: str | Path) -> Traced:
    """The kernels of a trace.

    Raises:
        TilewrightError: It cannot be read.
        SpecError: A line is none of a trace; the error names it.
    """
    file = Path(path)
    try:
        text = text_files.read(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read it: {reason}", where=str(file), expected="a trace") from None
    calls: Counter[Spec] = Counter()
    skipped: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}:{number}"
        try:
            given = json.loads(line)
            table, times, computes = given["spec"], int(given["calls"]), str(given["computes"])
        except (ValueError, TypeError, KeyError):
            raise SpecError(f"{line[:80]!r}", where=where, expected=_EXPECTED) from None
        if table is None:
            skipped[computes] = None
        elif isinstance(table, dict):
            calls[spec_tables.read(table, where)] += times
        else:
            raise SpecError(f"{line[:80]!r}", where=where, expected=_EXPECTED)
    return Traced(dict(calls.most_common()), tuple(skipped))
