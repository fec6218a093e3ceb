# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Specs as tables of plain values, as TOML and JSON have them: the lists of libraries and the traces of programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Union

from tilewright.dims import Dim, written
from tilewright.entries import Epilogue
from tilewright.errors import SpecError, TilewrightError
from tilewright.operator_specs import OPERATORS, OperatorSpec
from tilewright.payload.epilogues import parse
from tilewright.scaling import ROLES
from tilewright.spec import MatmulSpec

Spec = Union[MatmulSpec, OperatorSpec]  # noqa: UP007 - evaluated by Python 3.10
_OPERATOR = "operator"
_ENTRIES = ("epilogue", "prologue_a", "prologue_b")
_EXTENT = re.compile(r"[0-9?][0-9?./]*")


def read(given: Mapping[str, Any], where: str) -> Spec:
    """The spec that a table describes.

    A table has the fields of `MatmulSpec`, or, with ``operator``, those of that operator's spec. ``shape = "MxNxK"`` stands for m, n and k,
    ``dtype`` for the element types, both as the command line has them. Dynamic extents are texts, such as "?" and "?1..512"; epilogues are
    texts, such as "bias:n,gelu", and so are complex factors, such as "1-2j".

    Args:
        given: The table.
        where: What errors call it.

    Raises:
        SpecError: A field is unknown, or does not fit.
    """
    table = dict(given)
    operator = table.pop(_OPERATOR, None)
    if operator is not None and operator not in OPERATORS:
        raise SpecError(f"operator {operator!r}", where=where, expected=f"one of {', '.join(OPERATORS)}")
    kind: type[Any] = MatmulSpec if operator is None else OPERATORS[operator]
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


def table(spec: Spec) -> dict[str, Any] | None:
    """The table of which `read` makes an equal spec; None where there is none, as with a Python function in an epilogue."""
    found: dict[str, Any] = {_OPERATOR: spec.operator} if isinstance(spec, OperatorSpec) else {}
    for each in fields(spec):  # pyright: ignore[reportArgumentType] - of dataclasses
        value = getattr(spec, each.name)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if value != default:
            found[each.name] = _plain(value)
    try:
        return found if read(found, "spec") == spec else None
    except (TilewrightError, ValueError):
        return None


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
    if name in ROLES and isinstance(value, str):
        try:
            return complex(value)
        except ValueError:
            return value
    if isinstance(value, list):
        return tuple(_value("", each) for each in value)
    if isinstance(value, str) and name != "shape" and _EXTENT.fullmatch(value):
        found = written(value)
        return value if found is None else found
    return value


def _plain(value: Any) -> Any:  # noqa: ANN401 - as the spec has it
    """A field's value as a table has it."""
    if isinstance(value, Dim):
        return str(value)
    if isinstance(value, tuple) and value and all(isinstance(each, Epilogue) for each in value):
        return ",".join(_entry(str(each)) for each in value)
    if isinstance(value, complex):
        return str(value).strip("()")
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _entry(text: str) -> str:
    """An entry as the command line has it, "bias:n", from the call that prints it, "bias('n')"; the text itself where it is none."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return text
        named = (f"{each.arg}={_argument(each.value)}" for each in call.keywords)
        return ":".join([call.func.id, *map(_argument, call.args), *named])
    except SyntaxError:
        return text


def _argument(node: ast.expr) -> str:
    """An argument of an entry: a text without its quotes, a number as it is."""
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
