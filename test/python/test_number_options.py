# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every option that takes a number refuses one that is not finite, and one that is out of its range."""

from collections.abc import Iterator

import click
import pytest
from tilewright.cli.app import command


def numbers(group: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Option]]:
    """The options of a verb, and of its verbs, whose values are floating-point numbers."""
    context = click.Context(group)
    for each in group.params:
        if isinstance(each, click.Option) and isinstance(each.type, click.types.FloatParamType):
            yield " ".join((*names, each.opts[0])), each
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            verb = group.get_command(context, name)
            assert verb is not None
            yield from numbers(verb, (*names, name))


OPTIONS = dict(numbers(command))


def test_these_are_among_them():
    assert {"bench --bar", "bench card --budget", "emulate --seconds", "lab --seconds", "tune --budget"} <= set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("text", ["nan", "-inf", "inf", "-1", "x"])
def test_what_is_no_number_of_the_range_is_refused(name, text):
    option = OPTIONS[name]
    with pytest.raises(click.BadParameter):
        option.type.convert(text, option, click.Context(command))
