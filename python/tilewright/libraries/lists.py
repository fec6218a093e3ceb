# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the list of a library's kernels from a TOML file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright import text_files
from tilewright.dims import written
from tilewright.errors import SpecError, TilewrightError
from tilewright.libraries.objects import Source
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.epilogues import parse
from tilewright.spec import MatmulSpec

_KERNELS = "kernels"
_OPTIONS: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "name": (str, "a string"),
        "targets": (list, "a list of strings"),
        "threads": (int, "an integer"),
    }
)
"""What a file says besides its kernels: the type of each value, and what errors call it."""
_OPERATORS: Mapping[str, type[Any]] = MappingProxyType({each.operator: each for each in (Conv2dSpec, AttentionSpec)})
_ENTRIES = ("epilogue", "prologue_a", "prologue_b")
_EXTENT = re.compile(r"[0-9?][0-9?./]*")


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

    A table has the fields of `MatmulSpec`, or, with ``operator = "conv2d"`` or ``"attention"``, those of that operator's spec, or
    ``module = "FILE.mlir"``, a file beside the list. ``shape = "MxNxK"`` stands for m, n and k, ``dtype`` for the element types, both as
    the command line has them. Dynamic extents are texts, such as "?" and "?1..512/8"; epilogues are texts, such as "bias:n,gelu".
    Besides, the file may have ``name``, ``targets`` and ``threads``.

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
        if not isinstance(value, kind) or isinstance(value, bool):
            raise SpecError(f"{name} is {value!r}", where=str(file), expected=words)
    kernels = {name: _source(table, file, f"{file}: {name}") for name, table in tables.items()}
    return KernelList(kernels, {"name": re.sub(r"\W", "_", file.stem, flags=re.ASCII), **given})


def _source(table: dict[str, Any], file: Path, where: str) -> Source:
    """What one table asks for."""
    if "module" in table:
        if len(table) > 1 or not isinstance(table["module"], str):
            raise SpecError("more than a module's file", where=where, expected='module = "FILE.mlir" alone')
        return file.parent / table["module"]
    operator = table.pop("operator", None)
    if operator is not None and operator not in _OPERATORS:
        raise SpecError(f"operator {operator!r}", where=where, expected=f"one of {', '.join(_OPERATORS)}")
    kind: type[Any] = MatmulSpec if operator is None else _OPERATORS[operator]
    known = {each.name for each in fields(kind)} | ({"shape", "dtype"} if operator is None else set[str]())
    if unknown := sorted(set(table) - known):
        raise SpecError(f"unknown field {unknown[0]!r}", where=where, expected=f"one of {', '.join(sorted(known))}")
    try:
        values = {name: _value(name, value) for name, value in table.items()}
        if operator is None and {"shape", "dtype"} & set(values):
            return _by_shape(values)
        return kind(**values)
    except TypeError as error:
        raise SpecError(str(error), where=where, expected="the fields of the spec") from None
    except SpecError as error:
        raise SpecError(error.what, where=where, expected=error.expected, remedy=error.remedy) from None


def _by_shape(values: dict[str, Any]) -> MatmulSpec:
    """The product of a shape and element types as the command line has them."""
    if "shape" in values:
        sizes = [written(each) for each in str(values.pop("shape")).split("x")]
        if len(sizes) != 3 or None in sizes or {"m", "n", "k"} & set(values):
            raise SpecError("the shape is none", expected='shape = "MxNxK", and neither m, n nor k')
        values |= dict(zip("mnk", sizes, strict=True))
    m, n, k = (values.pop(each, None) for each in "mnk")
    return MatmulSpec.from_dtypes(m, n, k, values.pop("dtype", "f32"), **values)


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - as TOML has it
    """A field's value as the spec takes it."""
    if name in _ENTRIES and isinstance(value, str):
        return parse(value) if value else ()
    if isinstance(value, list):
        return tuple(_value("", each) for each in value)
    if isinstance(value, str) and name != "shape" and _EXTENT.fullmatch(value):
        found = written(value)
        return value if found is None else found
    return value
