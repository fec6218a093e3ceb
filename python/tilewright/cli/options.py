# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options that several verbs share, the types of their values, and the settings of every verb."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tilewright import knobs
from tilewright.dims import Extent, written
from tilewright.precision import NAMES
from tilewright.scaling import ARG
from tilewright.spec import LAYOUTS

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.targets import GpuTarget, Target

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Gives a verb an option, or several."""
Extents = tuple[Extent, Extent, Extent]
"""M, N and K."""

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([+-]?[0-9]+)\s*", re.ASCII)


class Kind(click.ParamType):
    """A type of values, of what makes one of a text, or says in a ValueError why not; what is no text is one already."""

    def __init__(self, name: str, make: Callable[[str], Any]) -> None:
        """Takes what the help calls it, too."""
        self.name, self._make = name, make

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The value."""
        try:
            return self._make(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _extents(text: str) -> list[Extent | None]:
    """Extents with x between them; None for what is none."""
    return [written(each) for each in re.split("[xX×]", text)]


def _shape(text: str) -> Extents:
    """M, N and K."""
    extents = _extents(text)
    if len(extents) != 3 or None in extents:
        raise ValueError(f"{text!r} is no shape; expected MxNxK with three sizes, such as 384x1024x1024 or ?x1024x1024")
    m, n, k = (each for each in extents if each is not None)
    return m, n, k


def _batch(text: str) -> tuple[Extent, ...]:
    """Any number of extents; an empty text is none."""
    extents = _extents(text) if text else []
    if None in extents:
        raise ValueError(f"{text!r} is no batch; expected sizes such as 16 or 8x12, ? for a dynamic one")
    return tuple(each for each in extents if each is not None)


def _target(text: str) -> str | Target | GpuTarget:
    """The name as it is; of a file, the target that it describes, read once."""
    from tilewright.targets import files

    return files.load(text) if text.endswith(files.SUFFIXES) else text


def _assignment(text: str) -> tuple[str, int]:
    """A parameter's name and its size."""
    found = _ASSIGNMENT.fullmatch(text)
    if found is None or len(found.group(2)) > 20:
        raise ValueError(f"{text!r} sets nothing; expected NAME=SIZE, such as kc=128")
    return found.group(1), int(found.group(2))


class Number(click.FloatRange):
    """The type of finite numbers within a range: NaN, which compares with nothing, lies in each of click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


TARGET = Kind("NAME|FILE", _target)
"""The type of ``--target``."""


def verb(
    name: str | None = None, *, short_help: str, interspersed: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a function a verb: a command with the settings of all. Without `interspersed`, options end at the first argument.

    Each verb has them itself. From its group it would inherit them, but click keeps the help option of the first call, which
    need not have come through the group.
    """
    settings = {**_SETTINGS, "allow_interspersed_args": interspersed}
    return click.command(name, short_help=short_help, context_settings=settings)


def verbs(*, invoke_without_command: bool = False) -> Callable[[Callable[..., Any]], click.Group]:
    """Makes a function a group of verbs, with the same settings; it may do something without a verb too."""
    return click.group(
        no_args_is_help=False, invoke_without_command=invoke_without_command, context_settings=dict(_SETTINGS)
    )


def together(*options: Option) -> Option:
    """Several options as one, in this order."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


def shape(required: bool) -> Option:
    """``--shape``, repeatable."""
    return click.option(
        "--shape",
        "shapes",
        metavar="MxNxK",
        type=Kind("MxNxK", _shape),
        multiple=True,
        required=required,
        help="Extents M, N and K; may be repeated. ? is a dynamic one; ?MIN..MAX/MULTIPLE says what it can be.",
    )


def _epilogue(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[Any, ...]:
    """The entries; none for an empty text."""
    from tilewright.payload.epilogues import parse

    return parse(value) if value else ()


def _threads(_context: click.Context, _parameter: click.Parameter, value: int) -> int:
    """Checks the number of threads before anything is compiled."""
    from tilewright.schedules.models.threads import check

    return check(value, "--threads")


def _parameters(
    _context: click.Context, _parameter: click.Parameter, value: tuple[tuple[str, int], ...]
) -> dict[str, int]:
    """The overrides by name."""
    found: dict[str, int] = {}
    for name, size in value:
        if name in found:
            raise click.BadParameter(f"{name} is set twice", param_hint="--set")
        found[name] = size
    return found


dtype = click.option(
    "--dtype", default="f32", show_default=True, help="Element type: one, or those of A, B and C (a,b,c)."
)
batch = click.option(
    "--batch",
    type=Kind("BxB", _batch),
    default="",
    metavar="BxB…",
    help="Leading extents of A, B and C: so many products; ? as in --shape.",
)
layout = click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    default="nn",
    show_default=True,
    help="t: A (first), B (second) is stored transposed, as KxM, NxK; c: and conjugated.",
)


def _entries(name: str, what: str) -> Option:
    """An option whose value is what is done to elements."""
    return click.option(name, default="", metavar="ENTRY,…", callback=_epilogue, help=what)


def _factor(name: str, default: str) -> Option:
    """``--alpha`` or ``--beta``."""
    return click.option(
        f"--{name}",
        default=default,
        show_default=True,
        metavar="NUMBER|arg",
        callback=_number,
        help=f"{name} of C = alpha·A·B + beta·C: a number, or arg, and calls tell it.",
    )


def _number(_context: click.Context, parameter: click.Parameter, value: str) -> complex | str:
    """A factor as `MatmulSpec` takes it."""
    for kind in (int, float, complex):
        try:
            return kind(value)
        except ValueError:
            pass
    if value == ARG:
        return value
    raise click.BadParameter(f"{value!r} is neither a number nor {ARG!r}", param=parameter)


product = together(
    dtype,
    layout,
    batch,
    _factor("alpha", "1"),
    _factor("beta", "0"),
    click.option("--b-packed", is_flag=True, help="B comes packed ahead of time: calls do not pack it."),
    _entries(
        "--epilogue", "What is done to each sum, such as bias:n,gelu: entries, with their arguments after colons."
    ),
    _entries("--prologue-a", "What is done to each element of A before it is multiplied, such as cast:f32,scale_by:m."),
    _entries("--prologue-b", "The same for B: cast:f32,scale_by:n."),
    click.option("--deterministic", is_flag=True, help="The same bits for every M, batch and number of threads."),
    click.option(
        "--tf32",
        is_flag=True,
        help="Elements of f32 may lose all but 10 bits after the point before they are multiplied.",
    ),
    click.option(
        "--precision",
        type=click.Choice(NAMES),
        help="Compute products of f32 as sums of so many products of pieces in bf16; i8: A may be rounded for quantized weights.",
    ),
)
"""What a product is besides its shape: each option is a field of `MatmulSpec`, or ``--dtype``."""
schedule = together(
    click.option(
        "--schedule", metavar="NAME|FILE", help="A strategy's name, or a .py or .mlir file. Chosen for you otherwise."
    ),
    click.option(
        "--set",
        "parameters",
        type=Kind("NAME=SIZE", _assignment),
        multiple=True,
        callback=_parameters,
        help="Override a size of the schedule: mr, nr, mc, nc or kc; may be repeated.",
    ),
)


def _executor(context: click.Context, _parameter: click.Parameter, value: str | None) -> Executor | None:
    """The executor that a text names, which ends with the verb."""
    from tilewright.processes import executors

    return None if value is None else context.with_resource(executors.opened(value))


executor = click.option(
    "--executor",
    "--jobs",
    "executor",
    metavar="N|dask://…|ray://…|mpi",
    callback=_executor,
    help="Who works: so many processes, or the workers of Dask, Ray or MPI. By default this machine.",
)
problem = together(
    click.argument("file", metavar="[FILE.mlir]", required=False),
    shape(required=False),
    product,
    click.option(
        "--target",
        type=TARGET,
        default="host",
        show_default=True,
        help="What to compile for: a name (see `tilewright targets`), or a .toml or .py file with a target of one's own.",
    ),
    click.option(
        "--threads",
        type=int,
        default=1,
        show_default=True,
        callback=_threads,
        help="Most threads of a call; a small product uses fewer.",
    ),
    schedule,
)
"""What is compiled, for which target, and under which schedule: the arguments of `problem.given`."""
passes = click.option(
    "--passes",
    metavar="FILE",
    expose_value=False,
    callback=lambda context, _, given: _for_this_call(context, "TILEWRIGHT_PASSES", given or ""),
    help="Run these passes behind the schedule: a passes.txt of `compile --dump-dir`, edited, or 'required': those that are needed.",
)
dumps = together(
    click.option(
        "--dump-dir",
        metavar="DIR",
        expose_value=False,
        callback=lambda context, _, given: _for_this_call(context, "TILEWRIGHT_DUMP", given or ""),
        help="Write each stage, and the IR after each pass, to a new folder in DIR.",
    ),
    click.option(
        "--time-passes",
        is_flag=True,
        expose_value=False,
        callback=lambda context, _, given: _for_this_call(context, "TILEWRIGHT_TIME_PASSES", "1" if given else ""),
        help="Print to standard error how long each pass took.",
    ),
    click.option(
        "--debug-info",
        is_flag=True,
        expose_value=False,
        callback=lambda context, _, given: _for_this_call(context, "TILEWRIGHT_DEBUG_INFO", "1" if given else ""),
        help="Give the code line tables, which tell the lines of the schedule.",
    ),
)
"""What the environment's variables of these names say, for one call."""


def require_for_shapes_only(*names: str) -> None:
    """Checks that, beside a file, none of the options called `names` was given: they describe a product of --shape.

    Raises:
        click.UsageError: One was.
    """
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and _is_given(context, option.name):
            raise click.UsageError(f"both FILE.mlir and {option.opts[0]} given; {option.opts[0]} is for a --shape")


def require_only(file: str, *names: str) -> None:
    """Checks that, beside `file`, which says all that there is to say, only options called `names` were given.

    Raises:
        click.UsageError: Another one was.
    """
    context = click.get_current_context()
    for option in context.command.params:
        if option.name not in names and _is_given(context, option.name):
            raise click.UsageError(f"both {file} and {option.opts[0]} given; expected the file alone")


def _for_this_call(context: click.Context, name: str, value: str) -> None:
    """Sets a variable of the environment, which child processes get too, until the call of a verb ends."""
    if value:
        context.with_resource(knobs.overridden(**{name: value}))


def require_none(context: click.Context, verb: str) -> None:
    """Checks that, before a verb of its own, a group was given no option: it would mean nothing there.

    Raises:
        click.UsageError: One was.
    """
    for parameter in context.command.params:
        if _is_given(context, str(parameter.name)):
            raise click.UsageError(f"{parameter.opts[0]} given before {verb}; expected it after the verb, if it has it")


def _is_given(context: click.Context, name: str) -> bool:
    """Whether a parameter stands on the command line."""
    return context.get_parameter_source(name) == ParameterSource.COMMANDLINE
