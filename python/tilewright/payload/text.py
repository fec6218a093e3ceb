# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses users' MLIR text without letting it end the process.

MLIR's parser recurses for every open bracket and arithmetic operator, and overflows the stack on a few
thousand of them. So the text is measured before it is parsed.
"""

from __future__ import annotations

import re

from tilewright.errors import SpecError
from tilewright.mlir import ir

_MAX_CHARACTERS = 1 << 22
_MAX_WRITTEN_OUT = 1 << 26
"""Characters of a text in which each alias stands for what it is: a chain of aliases may double it with each link."""
_MAX_NESTING = 256
"""Far from the 4000 or so at which eight megabytes of stack are full, for threads that have less."""

_OP_NAME = re.compile(r'"?([A-Za-z_][\w$]*\.[\w$.]+)')
_TOKEN = re.compile(
    r"""
      (?P<skipped> "(?:[^"\\\n]|\\.)*" | //[^\n]* | -> )
    | (?P<open> [(\[{<] ) | (?P<close> [)\]}>] )
    | (?P<alias> [!\#][\w$]+(?![\w$.]) ) (?P<defined> \s*=(?!=) )?
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
    """Raises SpecError for text that may crash MLIR's parser, or that it does not accept."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SpecError("not UTF-8 text", where=_place_of(text, error.start, filename)) from None
    if len(text) > _MAX_CHARACTERS:
        raise SpecError(f"{len(text)} characters", where=filename, expected=f"at most {_MAX_CHARACTERS}")
    # For each bracket that is open, and what is outside of all: which one, and how many operators since the last comma.
    levels: list[tuple[str, int]] = [("", 0)]
    deep, seen, fresh = 0, 0, False
    aliases = _Aliases()
    for token in _TOKEN.finditer(text):
        bracket, operators = levels[-1]
        # A definition ends with its line, unless nothing of it stands there yet, or a bracket goes on with it.
        between = text[seen : token.start()]
        goes_on = fresh or (token["open"] and not between.rpartition("\n")[2].strip())
        if len(levels) == 1 and "\n" in between and not goes_on:
            aliases.end()
        seen, fresh = token.end(), False
        if token["alias"]:
            if len(levels) == 1 and token["defined"]:
                aliases.define(token["alias"], token.end())
                levels, deep, fresh = [("", 0)], 0, True
            elif deep + aliases.use(token["alias"], token.end(), deep) > _MAX_NESTING:
                raise _too_deep(text, token.start(), filename)
            continue
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
        aliases.note(deep)
        if deep > _MAX_NESTING:
            raise _too_deep(text, token.start(), filename)
    if aliases.written_out > _MAX_WRITTEN_OUT:
        raise SpecError(
            f"{float(aliases.written_out):.2g} characters when aliases are written out",
            where=filename,
            expected=f"at most {_MAX_WRITTEN_OUT}",
        )


def _too_deep(text: str, index: int, filename: str) -> SpecError:
    return SpecError(
        f"more than {_MAX_NESTING} nested brackets and operators",
        where=_place_of(text, index, filename),
    )


class _Aliases:
    """How deep the aliases of a text are nested, and how long it is with each of them written out."""

    def __init__(self) -> None:
        self.written_out = 0
        self._known: dict[str, tuple[int, int]] = {}
        self._name, self._start, self._deep, self._size = "", 0, 0, 0

    def define(self, name: str, start: int) -> None:
        """The definition of an alias starts."""
        self._name, self._start, self._deep, self._size = name, start, 0, 0

    def end(self) -> None:
        """The definition has ended, with its line."""
        self._name = ""

    def use(self, name: str, end: int, deep: int) -> int:
        """An alias is used within so many brackets: how deep it is itself."""
        depth, size = self._known.get(name, (0, 0))
        self.written_out += size
        if self._name:
            self._deep, self._size = max(self._deep, deep + depth), self._size + size
            self._known[self._name] = self._deep, self._size + end - self._start
        return depth

    def note(self, deep: int) -> None:
        """So many brackets are open."""
        if self._name:
            self._deep = max(self._deep, deep)
            self._known[self._name] = self._deep, max(self._size + 1, self._known.get(self._name, (0, 0))[1])


def _place_of(text: str, index: int, filename: str) -> str:
    """FILE:LINE:COLUMN of the character at `index`."""
    line_start = text.rfind("\n", 0, index) + 1
    return f"{filename}:{text.count(chr(10), 0, index) + 1}:{index - line_start + 1}"
