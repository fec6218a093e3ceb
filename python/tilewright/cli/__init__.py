# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line: one file a verb. A verb imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # Until `main` runs, Ctrl-C prints a traceback: nothing is imported that takes time.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as in shells."""
_IMPORTS = "<frozen importlib"
"""How the names of files start whose code imports modules."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status; `tilewright.cli.app` says which there are.

    Args:
        arguments: Without the program's name; None: those of the process.
    """
    _hand_over(signal.default_int_handler, _interrupted)
    try:
        from tilewright.cli import app

        return app.main(arguments)
    finally:
        _hand_over(_interrupted, signal.default_int_handler)


def _hand_over(before: Callable[..., object], after: Callable[..., object]) -> None:
    """Lets `after` handle Ctrl-C where `before` does: whoever ignores it, or has a handler, keeps that."""
    if signal.getsignal(signal.SIGINT) is before:
        try:  # noqa: SIM105 - contextlib is not imported yet
            signal.signal(signal.SIGINT, after)
        except ValueError:  # Only the main thread may, and only the main thread is interrupted.
            pass


def _interrupted(_: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, or, during an import, ends the process: modules in C crash on it, or make another error of it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTS):
            os.write(2, b"tilewright: interrupted\n")
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
