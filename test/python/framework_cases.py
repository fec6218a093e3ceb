# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases that run in another Python, which has torch or JAX: each prints a line of JSON, its name and the traceback of a failure."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable

CASES: list[Callable[[], None]] = []


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Makes a function a case."""
    CASES.append(function)
    return function


def refuses(words: str, call: Callable[[], object]) -> None:
    """Checks that a call raises an OperandError that says this."""
    from tilewright.errors import OperandError

    said = None
    try:
        call()
    except OperandError as error:
        said = str(error)
    assert said is not None, "not refused"
    assert re.search(words, said), said


def run() -> None:
    """Runs every case."""
    for each in CASES:
        failure = ""
        try:
            each()
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps({"case": each.__name__, "failure": failure}), flush=True)  # noqa: T201
