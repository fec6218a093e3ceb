# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of one peer: pins itself, loads the library, and obeys the parent over a connection.

Started by peer_process.py with the arguments ``FD NAME CORES``. The environment has the number of
threads already, and the affinity is set before the library is loaded, so that the library's threads inherit it.

A request is ``(method, arguments, named arguments)`` for a method of `contender.Calls`; the answer is ``(True, result)`` or
``(False, message)``. The first answer, unasked, has the library's version. The connection's end is the process's end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def serve(arguments: list[str], make: Callable[[str], Any]) -> int:
    """Serves one parent until it closes the connection, by what `make` makes of the peer's name, which has a `version`."""
    descriptor, name, cores = arguments
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    with Connection(int(descriptor)) as parent:
        try:
            contender = make(name)
            parent.send((True, contender.version))
        except Exception as error:
            parent.send((False, _message(error)))
            return 1
        while True:
            try:
                method, values, named = parent.recv()
            except EOFError:
                return 0
            try:
                parent.send((True, getattr(contender, method)(*values, **named)))
            except Exception as error:
                parent.send((False, _message(error)))


def _local(name: str) -> object:
    """The contender of that name, for products."""
    from tilewright.bench.contender import Local
    from tilewright.bench.peers import PEERS

    library = PEERS[name].make()
    return Local(name, library.version, library.bind, bind_packed=library.bind_packed, fetch=library.fetch)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], _local))
