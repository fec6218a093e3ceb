# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How specs, kernels, targets and modules look in a notebook: small tables in the page's own color, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_LINE = "1px solid color-mix(in srgb, currentColor 25%, transparent)"
_CELL = "text-align:left;padding:.15em .9em .15em 0"


def card(
    title: str, facts: Mapping[str, object], header: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()
) -> str:
    """HTML of a title, of facts by name, and of a table.

    No color is named, so that all of it is readable on any background.

    Args:
        title: The title, plain text as all else.
        facts: Facts by name; those that are None or empty are left out.
        header: The table's columns.
        rows: Its rows.
    """
    found = [f"<b>{escape(title)}</b>"]
    told = [(name, str(value)) for name, value in facts.items() if value not in (None, "")]
    if told:
        pairs = (f'<span style="opacity:.65">{escape(name)}</span>&nbsp;{escape(value)}' for name, value in told)
        found.append(f'<div style="margin:.2em 0">{" · ".join(pairs)}</div>')
    lines = [_row("td", each) for each in rows]
    if lines:
        table = f"{_row('th', header)}{''.join(lines)}"
        found.append(
            f'<table style="border-collapse:collapse;border-top:{_LINE};border-bottom:{_LINE}">{table}</table>'
        )
    return f'<div style="font-size:.95em;line-height:1.5">{"".join(found)}</div>'


def _row(tag: str, cells: Sequence[object]) -> str:
    return (
        f"<tr>{''.join(f'<{tag} style={chr(34)}{_CELL}{chr(34)}>{escape(str(each))}</{tag}>' for each in cells)}</tr>"
    )


TENSORS = ("tensor", "shape", "type")
"""The columns of a table of operands and results."""


def tensors(operands: Iterable[Any], results: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Its rows, of operands and results that have a name, a shape and a type."""
    named = [*((each.name, each) for each in operands), *((f"→ {each.name}", each) for each in results)]
    return [(name, "×".join(map(str, each.shape)) or "number", str(each.type)) for name, each in named]


class Spec:
    """A spec, as a notebook shows it: its operands, its result, and how many operations it takes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What it computes, and the tensors."""
        spec: Any = self
        facts = {} if getattr(spec, "open", None) else {"operations": f"{spec.flops:,}"}
        rows = tensors(spec.operands, [spec.result])
        return card(f"{type(self).__name__} {self}", facts, TENSORS, rows)
