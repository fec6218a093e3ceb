# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the list of a library's kernels from a TOML file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright import text_files
from tilewright.errors import SpecError, TilewrightError
from tilewright.libraries.kernels import Source
from tilewright.payload import spec_tables

_KERNELS = "kernels"
_OPTIONS: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "name": (str, "a string"),
        "targets": (list, "a list of strings"),
        "threads": (int, "an integer"),
        "own_pool": (bool, "true or false"),
        "max_size": (str, 'a string such as "256K"'),
    }
)
"""What a file says besides its kernels: the type of each value, and what errors call it."""


@dataclass(frozen=True, slots=True)
class KernelList:
    """What a file asks for.

    Attributes:
        kernels: The kernels by name.
        options: What it says besides, as `tilewright.library` takes it.
    """

    kernels: Mapping[str, Source]
    options: Mapping[str, Any] = field(default_factory=dict)


def read(path: str | Path) -> KernelList:
    """The kernels that a file lists, each a table ``[kernels.NAME]``.

    A table is one of a spec, as `spec_tables.read` has it, or has ``module = "FILE.mlir"``, a file beside the
    list. Besides, the list may have ``name``, ``targets``, ``threads``, ``own_pool`` and ``max_size``.

    Raises:
        TilewrightError: It cannot be read.
        SpecError: It is no TOML, or a field is unknown or does not fit; the error names the kernel.
    """
    file = Path(path)
    try:
        text = text_files.read(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read it: {reason}", where=str(file), expected="a .toml file") from None
    if sys.version_info < (3, 11):
        remedy = "Call tilewright.library from a .py file"
        raise SpecError(".toml files need Python 3.11", where=str(file), remedy=remedy)
    try:
        given: dict[str, Any] = import_module("tomllib").loads(text)
    except ValueError as error:
        raise SpecError(str(error), where=str(file), expected="a file in TOML") from None
    tables = given.pop(_KERNELS, {})
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise SpecError(f"{_KERNELS} is no table of tables", where=str(file), expected=f"tables [{_KERNELS}.NAME]")
    for name, value in given.items():
        kind, words = _OPTIONS.get(name, (object, ""))
        if name not in _OPTIONS:
            raise SpecError(f"unknown {name!r}", where=str(file), expected=f"one of {', '.join(_OPTIONS)}, {_KERNELS}")
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise SpecError(f"{name} is {value!r}", where=str(file), expected=words)
    kernels = {name: _source(table, file, f"{file}: {name}") for name, table in tables.items()}
    return KernelList(kernels, {"name": name_after(file), **given})


def name_after(file: str | Path) -> str:
    """What a library is called that is made of a file, where nothing says it: the file's name, with letters, digits and _."""
    return re.sub(r"\W", "_", Path(file).stem, flags=re.ASCII)


def _source(table: dict[str, Any], file: Path, where: str) -> Source:
    """What one table asks for."""
    if "module" not in table:
        return spec_tables.read(table, where)
    if len(table) > 1 or not isinstance(table["module"], str):
        raise SpecError("more than a module's file", where=where, expected='module = "FILE.mlir" alone')
    return file.parent / table["module"]
