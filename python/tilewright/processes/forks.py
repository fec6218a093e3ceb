# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Children that start in milliseconds: forks of a process that has imported what they need.

The process is started when it is first needed, imports what a child needs before the first such child, and ends with this process, or
when nobody has needed it for a minute. A child is as isolated as a process of its own: it has a session, an environment and limits of
its own, and how it ends is its own.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from threading import Lock
from typing import IO, Any

from tilewright.processes.command import command, paths_of_children
from tilewright.processes.forking import Start

_SERVER = "tilewright.processes.forking"
_START_SECONDS = 60.0
"""Until a fork runs; the first one waits for what it imports."""
_END_SECONDS = 1.0
"""Until a server whose line is closed has ended."""
_AT_START = ("LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""How variables begin that a process reads when it starts: other values ask for another server."""
_TRIES = 2
"""A server may end, as nobody needed it, while it is asked."""


class Forked:
    """A fork, as its parent sees it: what `subprocess.Popen` is of a program.

    Attributes:
        pid: Its number, which is its session's too, and nobody else's before `wait`.
        returncode: Its status as `subprocess` gives it, after `wait`.
    """

    def __init__(self, leash: socket.socket, pid: int) -> None:
        """Takes what tells the status."""
        self._leash = leash
        self.pid = pid
        self.returncode: int | None = None

    def is_gone(self) -> bool:
        """Whether it has ended."""
        try:
            self._leash.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def wait(self) -> int:
        """Its status, once it has ended; that of a process that was ended by force where its server was."""
        try:
            said = self._leash.recv(16)
        except OSError:
            said = b""
        self._leash.close()
        self.returncode = int(said) if said else -signal.SIGKILL
        return self.returncode


class Forks:
    """One server, and its forks."""

    def __init__(self) -> None:
        """Starts none yet."""
        self._lock = Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        needs: Sequence[str],
        variables: Mapping[str, str],
        output: IO[bytes],
    ) -> tuple[Connection, Forked]:
        """A fork that runs the `main` of a module, and the connection to it.

        Args:
            module: Its name.
            arguments: What follows the descriptor's number in its ``sys.argv``.
            needs: Modules that it will import.
            variables: What its environment has besides this process's.
            output: Where it prints.

        Raises:
            OSError: It did not start.
        """
        begins = Start(
            module,
            tuple(arguments),
            {**os.environ, **variables},
            paths_of_children(),
            frozenset(os.sched_getaffinity(0)),
        )
        for _ in range(_TRIES):
            (ours, theirs), (leash, end) = socket.socketpair(), socket.socketpair()
            line = Connection(ours.detach())
            with theirs, end:
                server = self._ask([module, *needs], [end.fileno(), theirs.fileno(), output.fileno()])
            try:
                line.send(begins)
                if not line.poll(_START_SECONDS):
                    break
                return line, Forked(leash, line.recv())
            except (EOFError, OSError):
                line.close()
                leash.close()
                self._drop(server)
        raise OSError(f"{module} did not start within {_START_SECONDS:g} s")

    def close(self) -> None:
        """Ends the server, once its forks have ended."""
        with self._lock:
            server = self._server
            if server is None or self._line is None:
                return
            self._line.close()
            self._server = self._line = None
        with suppress(subprocess.TimeoutExpired):
            server.wait(_END_SECONDS)

    def _ask(self, modules: Sequence[str], descriptors: Sequence[int]) -> Any:  # noqa: ANN401 - compared alone
        """Asks for a fork; returns the server that was asked."""
        with self._lock:
            if self._line is None or self._server is None or self._server.poll() is not None:
                self._begin()
            assert self._line is not None
            folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
            try:
                with suppress(OSError):  # The server is gone: nobody takes the other ends.
                    socket.send_fds(self._line, ["\n".join(modules).encode()], [*descriptors, folder])
            finally:
                os.close(folder)
            return self._server

    def _begin(self) -> None:
        """Starts the server."""
        if self._line is not None:
            self._line.close()
        # One message is one request, with its descriptors.
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                command(_SERVER, str(theirs.fileno())),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _drop(self, server: object) -> None:
        """Forgets a server that did not answer."""
        with self._lock:
            if self._server is server and self._line is not None:
                self._line.close()
                self._server = self._line = None

    def _forget(self) -> None:
        """In a fork of this process: the server is its parent's."""
        self._lock = Lock()
        if self._line is not None:
            self._line.close()
        self._server = self._line = None


def forks() -> Forks:
    """The server of this process, for the interpreter and the loader's variables that it has now."""
    return _forks(sys.executable, tuple(sorted(each for each in os.environ.items() if each[0].startswith(_AT_START))))


@cache
def _forks(_executable: str, _variables: tuple[tuple[str, str], ...]) -> Forks:
    return Forks()
