# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a user's own target from a file: a TOML table of its fields, or a Python program."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright import text_files
from tilewright.errors import TargetError
from tilewright.targets.base import Cache, Target
from tilewright.targets.gpu import GpuTarget
from tilewright.targets.host import host
from tilewright.targets.registry import get, gpu

SUFFIXES = (".py", ".toml")
"""What the names of such files end with."""
_VARIABLE = "target"
"""What a .py file defines."""
_BASE = "base"
"""The field of a .toml file that names the row which has all other fields."""
_OURS = (_BASE, "family", "emulation")
"""Fields that are not the user's."""
_KINDS: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "str": (str, "a string"),
        "int": (int, "an integer"),
        "bool": (bool, "true or false"),
        "frozenset[str]": (list, "a list of strings"),
        "Cache": (dict, "a table of bytes, ways, line and cpus"),
    }
)
"""The values of a .toml file, by annotation of a field: their type, and what errors call it."""


def load(path: str | Path) -> Target | GpuTarget:
    """The target that a file describes.

    A .toml file is a table of fields of `Target` or `GpuTarget`; ``base`` names the row that has those which are left out. A .py file is a
    program, which is run in this process and defines ``target``.

    Raises:
        TargetError: The file cannot be read, or describes no target; the error names the field, and what is expected.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise TargetError(
            f"{file} is no file of a target", where="targets.load", expected=f"one of {', '.join(SUFFIXES)}"
        )
    try:
        text = text_files.read(file)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise TargetError(f"cannot read it: {reason}", where=str(file), expected="a text file") from None
    return _program(file) if file.suffix == ".py" else _table(text, file)


def _program(file: Path) -> Target | GpuTarget:
    try:
        found = runpy.run_path(str(file)).get(_VARIABLE)
    except MemoryError:
        raise
    except (Exception, SystemExit) as e:  # whatever the user's file raises
        lines = (
            [e.lineno]
            if isinstance(e, SyntaxError)
            else [each.lineno for each in traceback.extract_tb(e.__traceback__) if each.filename == str(file)]
        )
        raise TargetError(f"{type(e).__name__}: {e}", where=f"{file}{f':{lines[-1]}' if lines else ''}") from e
    if not isinstance(found, Target | GpuTarget):
        what = "nothing" if found is None else f"a {type(found).__name__}"
        raise TargetError(
            f"{_VARIABLE} is {what}", where=str(file), expected=f"{_VARIABLE} = a tilewright.Target or GpuTarget"
        )
    return found


def _table(text: str, file: Path) -> Target | GpuTarget:
    if sys.version_info < (3, 11):
        raise TargetError(".toml files need Python 3.11", where=str(file), remedy="Write a .py file")
    try:
        given: dict[str, Any] = import_module("tomllib").loads(text)
    except ValueError as e:
        raise TargetError(str(e), where=str(file), expected="a file in TOML") from None
    named = given.pop(_BASE, None)
    try:
        base = host() if named == "host" else gpu(named) or get(str(named))
    except TargetError as e:
        raise TargetError(f"{_BASE} is {named!r}", where=str(file), expected=e.expected) from None
    kinds = {each.name: str(each.type) for each in fields(base) if each.name not in _OURS}
    values: dict[str, Any] = {"name": file.stem, "source": str(file)}
    for name, value in given.items():
        if name not in kinds:
            raise TargetError(f"unknown field {name!r}", where=str(file), expected=f"one of {', '.join(kinds)}")
        values[name] = _value(value, kinds[name].removesuffix(" | None"), f"{file}: {name}", getattr(base, name))
    try:
        return replace(base, **values)
    except TargetError as e:
        raise TargetError(e.what, where=str(file), expected=e.expected, remedy=e.remedy) from None


def _value(value: object, kind: str, where: str, usual: Any) -> object:  # noqa: ANN401 - the base's
    """The value of a field: of a cache, those of its fields that are left out are the base's."""
    type_, expected = _KINDS[kind]
    if not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool):
        raise TargetError(f"{value!r}", where=where, expected=expected)
    if isinstance(value, list):
        if any(not isinstance(each, str) for each in value):
            raise TargetError(f"{value!r}", where=where, expected=expected)
        return frozenset(value)
    if isinstance(value, dict):
        sizes = [each.name for each in fields(Cache)]
        for name, size in value.items():
            if name not in sizes:
                raise TargetError(f"unknown field {name!r}", where=where, expected=f"one of {', '.join(sizes)}")
            _value(size, "int", f"{where}.{name}", None)
        try:
            return replace(usual, **value) if usual else Cache(**value)
        except (
            TargetError,
            TypeError,
        ) as e:  # A TypeError: a cache that the base has not, of which sizes are left out.
            raise TargetError(
                e.what if isinstance(e, TargetError) else "sizes are missing", where=where, expected=expected
            ) from None
    return value
