# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parent's end of a child process: its connection, its output, and how it ended."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tilewright.processes.command import command
from tilewright.processes.forks import Forked, forks

_LAST_SECONDS = 5.0
"""Until a process whose connection is closed has ended."""
_MOST_OUTPUT = 1 << 26
"""Bytes of a child's output that are read."""


class ChildEndedError(Exception):
    """The child is gone, or was silent for too long.

    Attributes:
        reason: How it ended, worded to follow its name: "crashed with SIGSEGV".
        status: Its exit status as `subprocess` gives it; None for one that was ended because it was silent.
        output: What it had printed.
    """

    def __init__(self, reason: str, status: int | None, output: str) -> None:
        """Takes the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.output = output


class _Program(subprocess.Popen[bytes]):
    """A program that this process has started."""

    def is_gone(self) -> bool:
        """Whether it has ended; its number is its own until it has been waited for."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # Somebody lets the system wait for all children.
            return True


class Child:
    """A Python process that runs a module, which gets the number of a connection's descriptor as its first argument.

    It has a session of its own: a Ctrl-C in the terminal reaches the parent alone, which ends its children. A context manager that
    ends the process, and what the process has started.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: Path | None = None,
        variables: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        needs: Sequence[str] | None = None,
    ) -> None:
        """Starts it.

        Args:
            module: What it runs.
            arguments: What follows the descriptor's number in its ``sys.argv``.
            python: As for `command`.
            variables: What its environment has besides this process's.
            within: A command, of which the last words are the command that it runs, such as that of a sandbox.
            needs: Modules that it will import: it is a fork of a process that has them (`forks`), and runs the module's `main`.

        Raises:
            ChildEndedError: A fork did not start.
        """
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._ending = Lock()
        self._process: _Program | Forked
        if needs is not None:
            try:
                self._line, self._process = forks().start(module, arguments, needs, variables or {}, self._output)
            except OSError as error:
                raise ChildEndedError(f"did not start: {error}", None, self.output()) from None
            return
        self._line, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = _Program(
                [*within, *command(module, str(theirs.fileno()), *arguments, python=python)],
                env={**os.environ, **(variables or {})},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        """The child itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it at once."""
        self.close()

    def send(self, value: object) -> None:
        """Sends a value, pickled.

        Raises:
            ChildEndedError: The child is gone.
        """
        try:
            self._line.send(value)
        except OSError:
            raise self.ended() from None

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes, as `send` a value."""
        try:
            self._line.send_bytes(data)
        except OSError:
            raise self.ended() from None

    def receive(self, seconds: float | None = None) -> Any:  # noqa: ANN401 (whatever it sent)
        """The next value that the child sent.

        Raises:
            ChildEndedError: The child is gone, or sent nothing for so long; then it has been ended.
        """
        self._wait(seconds)
        try:
            return self._line.recv()
        except (EOFError, OSError):
            raise self.ended() from None

    def receive_bytes(self, seconds: float, most: int) -> bytes:
        """The next bytes that the child sent, at most so many; otherwise as `receive`."""
        self._wait(seconds)
        try:
            return self._line.recv_bytes(most)
        except (EOFError, OSError):
            raise self.ended() from None

    def output(self) -> str:
        """What the child has printed so far, to standard output and standard error."""
        # Not by read: the place in the file is also the child's.
        return os.pread(self._output.fileno(), _MOST_OUTPUT, 0).decode(errors="replace")

    def ended(self) -> ChildEndedError:
        """How the child ended, which has closed its end of the connection."""
        if not self._end(_LAST_SECONDS):
            return ChildEndedError("closed the connection", None, self.output())
        status = self._process.returncode or 0
        if status < 0:
            return ChildEndedError(f"crashed with {signal.Signals(-status).name}", status, self.output())
        return ChildEndedError(f"ended with status {status}", status, self.output())

    def is_running(self) -> bool:
        """Whether the process is there."""
        with self._ending:
            return self._process.returncode is None and not self._process.is_gone()

    def kill(self) -> None:
        """Ends the child by force, while another thread may wait for it, which is told."""
        self._end(0.0)

    def close(self, seconds: float = 0.0) -> None:
        """Ends the child: when it has not ended by itself so long after its connection was closed, by force."""
        self._line.close()
        self._end(seconds)
        self._output.close()

    def _wait(self, seconds: float | None) -> None:
        """Waits until there is something to receive."""
        try:
            if self._line.poll(seconds):
                return
        except OSError:
            raise self.ended() from None
        with self._ending:
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)  # It may say where it is when it is asked to end (`faulthandler`).
        self._end(_LAST_SECONDS)
        raise ChildEndedError(f"took more than {seconds:g} s", None, self.output())

    def _end(self, seconds: float) -> bool:
        """Ends the process and what it has started; returns whether it had ended by itself within so many seconds."""
        with self._ending:
            if self._process.returncode is not None:
                return True
            deadline = time.monotonic() + seconds
            while not (ended := self._process.is_gone()) and time.monotonic() < deadline:
                time.sleep(0.002)
            # Its number is its group's until it has been waited for, and may be anybody's afterwards.
            self._signal(signal.SIGKILL)
            self._process.wait()
            return ended

    def _signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process and to what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
