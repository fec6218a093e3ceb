# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright describe``: the documentation of a transform op, a step of schedules or a size, for people and editors."""

from __future__ import annotations

import difflib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from tilewright.cli import options

_OPS = re.compile(r"_\w*transform\w*_ops_gen$")
"""The modules of bindings that have transform ops."""
_PREFIX, _STEPS = "transform.", "steps."
_SIZE = re.compile(r"^(\w+): (.*)$")


@options.verb(short_help="Print what a transform op, a step or a size of schedules is.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="All of them, by name, as JSON: for editors.")
def describe(name: str | None, as_json: bool) -> None:
    """Print the documentation of NAME: a transform op (structured.tile_using_for), a step (steps.tile), or a size (kc).

    Without NAME, it lists the names.
    """
    if as_json and name is not None:
        raise click.UsageError("NAME and --json given; expected one of them")
    known = documented()
    if as_json:
        click.echo(json.dumps(known))
    elif name is None:
        click.echo("\n".join(sorted(known)))
    else:
        key = name.removeprefix(_PREFIX)
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise click.UsageError(
                f"{name!r} is no transform op, step or size; expected {near[0] if near else 'a name'}, as tilewright describe lists them"
            )
        click.echo(f"{key}\n\n{known[key]}")


def documented() -> Mapping[str, str]:
    """The documentation of each transform op, step and size, by name; of ops without "transform."."""
    return dict(sorted([*_ops(), *_steps(), *_sizes()]))


def _ops() -> Iterator[tuple[str, str]]:
    """Transform ops, from the descriptions in their definitions."""
    dialects = import_module("tilewright.mlir.dialects")
    for module in pkgutil.iter_modules(dialects.__path__):
        if _OPS.match(module.name):
            for each in vars(import_module(f"{dialects.__name__}.{module.name}")).values():
                op = getattr(each, "OPERATION_NAME", "")
                if inspect.isclass(each) and op.startswith(_PREFIX) and each.__doc__:
                    yield op.removeprefix(_PREFIX), inspect.cleandoc(each.__doc__)


def _steps() -> Iterator[tuple[str, str]]:
    """Steps of Python schedules, from their docstrings."""
    from tilewright.schedules import steps

    for name, each in vars(steps).items():
        if inspect.isfunction(each) and not name.startswith("_") and each.__doc__:
            yield f"{_STEPS}{name}", f"{name}{inspect.signature(each)}\n\n{inspect.cleandoc(each.__doc__)}"


def _sizes() -> Iterator[tuple[str, str]]:
    """The sizes that strategies have as knobs."""
    from tilewright.schedules.models.blocking import Blocking

    for line in (Blocking.__doc__ or "").splitlines():
        found = _SIZE.match(line.strip())
        if found and found[1] in Blocking.__dataclass_fields__:
            yield found[1], f"A size of schedules, in elements: {found[2]}"
