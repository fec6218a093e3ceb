# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of `forks`: imports what children need, once, and forks a child for each request.

It runs nothing that a user wrote, and forks while it has one thread, so that no lock is taken in a fork: those that numpy's BLAS starts
when it is imported end before a fork, and start again in a process that multiplies. A fork closes what is the server's, takes
over the environment, the folder, the path of modules and the CPUs that its parent has now, and ends as any program does.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait

_IDLE_SECONDS = 60.0
"""A server that nobody asks for so long ends; the next request starts another one."""
MOST_ASKED = 1 << 16
"""Bytes of a request."""
DESCRIPTORS = 4
"""Descriptors that come with a request: the leash, the child's connection, the file of its output, its folder."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a fork gets first, on its connection; it answers with its number.

    Attributes:
        module: It runs the module's `main`.
        arguments: What follows the connection's descriptor in its ``sys.argv``.
        environment: All of its environment.
        paths: Its ``sys.path``.
        cores: The CPUs that it may use.
    """

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    paths: Sequence[str]
    cores: frozenset[int]


def serve(asked: socket.socket) -> tuple[int, ...] | None:
    """Forks at each request; returns in a fork, with its connection, its output and its folder, and at the end, with None.

    A request is the names of modules to import before, a line each, with `DESCRIPTORS`. The status of a fork that has ended is sent on
    its leash. When its parent closes that, or is gone, what the fork started ends too; until then nobody else gets its number.
    """
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    gc.disable()  # What is imported is none.
    forks, told, is_open = dict[socket.socket, int](), set[int](), True
    while is_open or forks:
        ready = wait([woken, *forks, *([asked] if is_open else [])], None if forks else _IDLE_SECONDS)
        if not ready:
            break
        for each in ready:
            if each is woken:
                woken.recv(MOST_ASKED)
            elif each is asked:
                modules, descriptors, _, _ = socket.recv_fds(asked, MOST_ASKED, DESCRIPTORS)
                is_open = len(descriptors) == DESCRIPTORS
                if not is_open:
                    continue
                _import(modules.decode().split())
                leash = socket.socket(fileno=descriptors.pop(0))
                number = os.fork()
                if not number:
                    gc.enable()
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for mine in (asked, woken, waking, leash, *forks):
                        mine.close()
                    return tuple(descriptors)
                forks[leash] = number
                for theirs in descriptors:
                    os.close(theirs)
            elif isinstance(each, socket.socket):
                _end(forks.pop(each))
                each.close()
        for leash, number in forks.items():
            ended = number not in told and os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended:
                told.add(number)
                status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                with suppress(OSError):
                    leash.send(str(status).encode())
        told &= {*forks.values()}
    return None


def _import(modules: Sequence[str]) -> None:
    """Imports modules, and leaves them to the forks; one that fails is the error of the fork that imports it again."""
    missing = [each for each in modules if each not in sys.modules]
    for each in missing:
        with suppress(Exception):
            import_module(each)
    if missing:
        gc.freeze()  # What is looked through for garbage is written to, and would be copied in each fork.


def _end(number: int) -> None:
    """Ends a fork and what it has started."""
    with suppress(ProcessLookupError):  # It has not begun.
        os.killpg(number, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)


def run(connection: int, output: int, folder: int) -> None:
    """The fork: becomes what its parent asks for, and runs it."""
    os.setsid()
    for stream in (1, 2):
        os.dup2(output, stream)
    os.fchdir(folder)
    os.close(output)
    os.close(folder)
    with Connection(os.dup(connection)) as parent:
        start: Start = parent.recv()
        os.environ.clear()
        os.environ.update(start.environment)
        with suppress(OSError):
            os.sched_setaffinity(0, start.cores)
        sys.path[:] = start.paths
        sys.argv[1:] = [str(connection), *start.arguments]
        parent.send(os.getpid())
    import_module(start.module).main()
    _leave()


def _leave() -> None:
    """Ends as a program does, but frees nothing one by one: what is registered runs, and what was printed is written."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # A user's code may have closed or replaced it.
            stream.flush()
    ctypes.CDLL(None).exit(0)  # Which writes what C and C++ printed.


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as line:
        taken = serve(line)
    if taken:
        run(*taken)
