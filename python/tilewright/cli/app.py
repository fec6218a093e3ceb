# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command ``tilewright``: its verbs, and how every way it can end becomes an exit status and one line.

Status 0: fine. 1: a check failed. 2: bad usage or input. 70: a bug of ours. 130: interrupted. 141: nobody reads the output.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

import click

from tilewright.cli import options, streams
from tilewright.cli.bench import bench
from tilewright.cli.bisect import bisect
from tilewright.cli.blas import blas
from tilewright.cli.cache import cache
from tilewright.cli.check_asm import check_asm
from tilewright.cli.compile import compile_
from tilewright.cli.coverage import coverage
from tilewright.cli.db import db
from tilewright.cli.describe import describe
from tilewright.cli.emulate import emulate
from tilewright.cli.explain import explain
from tilewright.cli.lab import lab
from tilewright.cli.library import library
from tilewright.cli.run import run
from tilewright.cli.stages import stages
from tilewright.cli.targets import targets
from tilewright.cli.trace import trace
from tilewright.cli.tune import tune
from tilewright.errors import TilewrightError, WrongResultError

OK, CHECK_FAILED, BAD_INPUT, BUG, INTERRUPTED, NO_READER = 0, 1, 2, 70, 130, 141
"""The exit statuses; the last three are those of sysexits.h and of shells."""

TRACEBACK = "TILEWRIGHT_TRACEBACK"
"""The environment variable that has the traceback of every error printed before its line."""

_PROGRAM = "tilewright"
_COMPLETION = "_TILEWRIGHT_COMPLETE"
"""The environment variable by which a shell asks for completions, as click documents it."""


@options.verbs()
@click.version_option(package_name=_PROGRAM, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def command() -> None:
    """Compile matrix multiplications from MLIR, run and check them, and look at every stage."""


for _verb in (
    run,
    compile_,
    lab,
    library,
    blas,
    bench,
    explain,
    trace,
    describe,
    bisect,
    check_asm,
    coverage,
    emulate,
    targets,
    stages,
    cache,
    tune,
    db,
):
    command.add_command(_verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status.

    Args:
        arguments: Without the program's name; None: those of the process.
    """
    streams.prepare()
    status = _guarded(lambda: _invoke(sys.argv[1:] if arguments is None else list(arguments)))
    # Where a line has said what is wrong, it is not said again that nothing can be written.
    flushed = _flush() if status == BAD_INPUT else _guarded(sys.stdout.flush)
    if flushed != OK:
        streams.discard_stdout()
    return status or flushed


def _invoke(arguments: list[str]) -> object:
    """Runs a verb, without click's own way of ending the process; returns what the verb does."""
    if _COMPLETION in os.environ:
        command.main(arguments, prog_name=_PROGRAM, complete_var=_COMPLETION)
    with command.make_context(_PROGRAM, arguments) as context:
        return command.invoke(context)


def _guarded(action: Callable[[], object]) -> int:
    """Does `action`, and says on standard error, in one line, what went wrong, and what is not as it could be."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            status = action()
    except click.exceptions.Exit as error:  # --help and --version
        return error.exit_code
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else _PROGRAM
        return _fail(BAD_INPUT, f"{error.format_message().rstrip('.')}. See {place} --help")
    except click.ClickException as error:
        return _fail(BAD_INPUT, error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _fail(INTERRUPTED, "interrupted")
    except SystemExit as error:  # rich leaves so when the reader of a pipe has gone, click after completing a word
        return NO_READER if isinstance(error.__context__, BrokenPipeError) else _status(error.code)
    except TilewrightError as error:
        return _fail(CHECK_FAILED if _is_failed_check(error) else BAD_INPUT, str(error))
    except BrokenPipeError:
        return NO_READER
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(BAD_INPUT, f"{place}{error.strerror or error}")
    except MemoryError as error:
        return _fail(BAD_INPUT, f"out of memory: {error}. Ask for a smaller shape")
    except Exception as error:
        return _fail(
            BUG,
            f"internal error, a bug in tilewright: {type(error).__name__}: {error}."
            f" Please report it with what {TRACEBACK}=1 prints",
        )
    return _status(status)


def _status(value: object) -> int:
    """The exit status that a verb returned: an int, or nothing when all is well."""
    return value if isinstance(value, int) else OK if value is None else BAD_INPUT


def _is_failed_check(error: TilewrightError) -> bool:
    """Whether the error says that a kernel computed wrong numbers, or is not as was claimed."""
    checks = sys.modules.get("tilewright.bench.checks")  # if it is not loaded, it has raised nothing
    return isinstance(error, (WrongResultError, AssertionError)) or (
        checks is not None and isinstance(error, checks.CheckError)
    )


def _fail(status: int, message: str) -> int:
    """Writes the line, and the traceback when it was asked for."""
    if os.environ.get(TRACEBACK, "") not in ("", "0"):
        traceback.print_exc()
    with suppress(OSError):
        sys.stderr.write(f"{_PROGRAM}: {' '.join(message.split())}\n")
        sys.stderr.flush()
    return status


def _warn(message: Warning | str, *_: object) -> None:
    """Writes the line of a warning."""
    with suppress(OSError):
        sys.stderr.write(f"{_PROGRAM}: warning: {message}\n")


def _flush() -> int:
    try:
        sys.stdout.flush()
    except OSError:
        return BAD_INPUT
    return OK
