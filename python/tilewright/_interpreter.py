# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses to be imported in a subinterpreter of Python, where native modules crash or hang."""

from __future__ import annotations

from importlib import import_module

_MODULES = ("_interpreters", "_xxsubinterpreters")
"""Python's own module for them, by its name from 3.13 on and before."""


def require_main() -> None:
    """Checks that this is the main interpreter.

    Raises:
        ImportError: It is another one.
    """
    for name in _MODULES:
        try:
            module = import_module(name)
        except ImportError:
            continue
        # From 3.13 on a number comes with how the interpreter was made.
        current, main = (
            each[0] if isinstance(each, tuple) else each for each in (module.get_current(), module.get_main())
        )
        if int(current) != int(main):
            raise ImportError(
                "tilewright cannot be imported in a subinterpreter: its native modules, and MLIR's, belong to the main one. Import it"
                " there, or use processes",
                name="tilewright",
            )
        return
