# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads which choices a schedule's text leaves open, and makes others: the knobs and alternatives of upstream's `transform.tune` ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.build.usedef import named
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.payload.text import parse

_KNOB, _ALTERNATIVES = "transform.tune.knob", "transform.tune.alternatives"
_SELECTED = {_KNOB: "selected", _ALTERNATIVES: "selected_region_attr"}
"""The attribute of each op that has its choice."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a schedule leaves open.

    Attributes:
        name: What the schedule calls it.
        options: What it may be: integers, the numbers of regions where it is between alternatives.
        selected: What it is; None where the schedule does not say, and cannot run before it does.
    """

    name: str
    options: tuple[int, ...]
    selected: int | None


def read(text: str, name: str = "schedule") -> list[Choice]:
    """The choices in a schedule's text, in order; ops of one name are one choice.

    Args:
        text: The schedule.
        name: What errors call it.

    Raises:
        ScheduleError: The text does not parse, or an option is no integer, or ops of one name have other options.
    """
    return of(parse(text, name, ir.Context()), name)


def of(module: ir.Module, name: str = "schedule") -> list[Choice]:
    """The choices in a schedule's module, as `read` has those of its text. Raises `ScheduleError` as it does."""
    found: dict[str, Choice] = {}
    for op in named(module.operation, *_SELECTED):
        each = _choice(op, name)
        if found.setdefault(each.name, each).options != each.options:
            raise ScheduleError(
                f"{each.name} has options {_listed(each.options)}",
                where=name,
                expected=f"the options of the first {each.name}: {_listed(found[each.name].options)}",
                remedy="Give each choice a name of its own",
            )
    return list(found.values())


def made(text: str, chosen: Mapping[str, int], name: str = "schedule") -> str:
    """The text with other choices.

    Args:
        text: The schedule.
        chosen: By name.
        name: What errors call the schedule.

    Raises:
        ScheduleError: The text has no choice of that name, or it has not that option.
    """
    module = parse(text, name, ir.Context())
    make(module, chosen, name)
    return str(module)


def make(module: ir.Module, chosen: Mapping[str, int], name: str = "schedule") -> None:
    """Makes other choices in a schedule's module, as `made` does in its text. Raises `ScheduleError` as it does."""
    known = {each.name: each for each in of(module, name)}
    for each, value in chosen.items():
        if each not in known:
            raise ScheduleError(f"no choice {each!r}", where=name, expected=f"one of {', '.join(known) or 'none'}")
        if value not in known[each].options:
            raise ScheduleError(
                f"{each} is {value}", where=name, expected=f"one of {_listed(known[each].options)}, its options"
            )
    for op in named(module.operation, *_SELECTED):
        label = ir.StringAttr(op.attributes["name"]).value
        if label in chosen:
            kind = ir.IntegerType.get_signless(32, module.context)
            if op.name == _KNOB:
                kind = ir.IntegerAttr(ir.ArrayAttr(op.attributes["options"])[0]).type
            op.attributes[_SELECTED[op.name]] = ir.IntegerAttr.get(kind, chosen[label])


def _choice(op: ir.Operation, name: str) -> Choice:
    """What a `transform.tune` op leaves open. Raises `ScheduleError`."""
    label, attribute = ir.StringAttr(op.attributes["name"]).value, _SELECTED[op.name]
    selected = ir.IntegerAttr(op.attributes[attribute]).value if attribute in op.attributes else None
    if op.name == _ALTERNATIVES:
        return Choice(label, tuple(range(len(op.regions))), selected)
    try:
        options = tuple(ir.IntegerAttr(each).value for each in ir.ArrayAttr(op.attributes["options"]))
    except ValueError:
        what = f"{label} has options {op.attributes['options']}"
        raise ScheduleError(what, where=name, expected="an array of integers, such as [64, 128]") from None
    return Choice(label, options, selected)


def _listed(options: tuple[int, ...]) -> str:
    return ", ".join(map(str, options))
