# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads MLIR text that others wrote, without letting it end the process.

MLIR's parser calls itself for every bracket and every arithmetic operator that is open, and overflows the stack on a few
thousand of them. So the text is measured before it is parsed.
"""

from __future__ import annotations

import re

from tilewright.errors import SpecError
from tilewright.mlir import ir

_MAX_CHARACTERS = 1 << 22
_MAX_NESTING = 256
"""Far from the 4000 or so at which eight megabytes of stack are full, for threads that have less."""

_OP_NAME = re.compile(r'"?([A-Za-z_][\w$]*\.[\w$.]+)')
_TOKEN = re.compile(
    r"""
      (?P<skipped> "(?:[^"\\\n]|\\.)*" | //[^\n]* | -> )
    | (?P<open> [(\[{<] ) | (?P<close> [)\]}>] )
    | (?P<operator> [-+*] | \b(?:mod|floordiv|ceildiv)\b )
    | (?P<end> [,=] )
    """,
    re.VERBOSE,
)
_OPENER = {")": "(", "]": "[", "}": "{", ">": "<"}


def parse(text: str, filename: str, context: ir.Context) -> ir.Module:
    """Parses and verifies MLIR text; top-level ops without a module get one.

    Args:
        text: The text.
        filename: The file's name, for errors.
        context: Where the module is made.

    Raises:
        SpecError: It is not valid, or nested too deeply; the error names the place as FILE:LINE:COLUMN.
    """
    _check(text, filename)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        first = next(iter(error.error_diagnostics), None)
        if first is None:
            raise SpecError("not valid MLIR", where=filename) from None
        raise SpecError(f"not valid MLIR: {first.message}", where=place(first.location, filename)) from None


def place(location: ir.Location, filename: str) -> str:
    """FILE:LINE:COLUMN of a location in the text that was parsed as `filename`; the file alone when none is known."""
    if not location.is_a_file():
        return filename
    # MLIR calls text without a file "-". Any other name was written in the text.
    file = filename if location.filename == "-" else location.filename
    return f"{file}:{location.start_line}:{location.start_col}"


def op_at(location: ir.Location, text: str) -> str:
    """LINE:COLUMN and the name of an op as they are in `text`, of several that were made one of the last: "3:8: linalg.reduce"."""
    while not location.is_a_file():
        if location.is_a_fused() and location.locations:
            location = location.locations[-1]
        elif location.is_a_name():
            location = location.child_loc
        else:
            return "an op of an unknown place"
    line, column = location.start_line, location.start_col
    lines = text.split("\n")
    name = _OP_NAME.match(lines[line - 1], column - 1) if line <= len(lines) else None
    return f"{line}:{column}: {name.group(1) if name else 'an op'}"


def _check(text: str, filename: str) -> None:
    """Raises SpecError for text that MLIR's parser may not survive, or does not take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SpecError("not UTF-8 text", where=_place_of(text, error.start, filename)) from None
    if len(text) > _MAX_CHARACTERS:
        raise SpecError(f"{len(text)} characters", where=filename, expected=f"at most {_MAX_CHARACTERS}")
    # For each bracket that is open, and what is outside of all: which one, and how many operators since the last comma.
    levels: list[tuple[str, int]] = [("", 0)]
    deep = 0
    for token in _TOKEN.finditer(text):
        bracket, operators = levels[-1]
        if token["open"]:
            levels.append((token[0], 0))
            deep += 1
        elif token["close"] and _OPENER[token[0]] == bracket:
            levels.pop()
            deep -= 1 + operators
        elif token["operator"]:
            levels[-1] = bracket, operators + 1
            deep += 1
        elif token["end"]:
            levels[-1] = bracket, 0
            deep -= operators
        if deep > _MAX_NESTING:
            raise SpecError(
                f"more than {_MAX_NESTING} brackets and operators inside one another",
                where=_place_of(text, token.start(), filename),
            )


def _place_of(text: str, index: int, filename: str) -> str:
    """FILE:LINE:COLUMN of the character at `index`."""
    line_start = text.rfind("\n", 0, index) + 1
    return f"{filename}:{text.count(chr(10), 0, index) + 1}:{index - line_start + 1}"
