# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process of `pool.Processes`, and of others: calls the functions that it receives, until the connection is closed."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from tilewright.errors import TilewrightError


def serve(parent: Connection) -> None:
    """Answers each ``(function, arguments, named)`` with ``(True, result)`` or ``(False, exception)``."""
    while True:
        try:
            function, arguments, named = parent.recv()
        except EOFError:
            return
        try:
            answer = True, function(*arguments, **named)
        except Exception as error:
            answer = False, error
        try:
            parent.send(answer)
        except Exception as error:  # It cannot be pickled.
            parent.send((False, TilewrightError(f"{type(error).__name__}: {error}", where=str(function))))


def main() -> None:
    """The process."""
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
