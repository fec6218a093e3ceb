# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parent's end of a peer's process: the peer as a contender, its death and its errors as our errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.peers import Peer, process_environment
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError

_WORKER = "tilewright.bench.peer_worker"
_PACKAGE = str(Path(__file__).resolve().parents[2])
# The peer's own packages come first on its path, ours last: ours are there for this package only.
_START = """
import os, runpy, sys
paths, worker = sys.argv[1:3]
del sys.argv[1:3]
sys.path += paths.split(os.pathsep)
runpy.run_module(worker, run_name="__main__", alter_sys=True)
"""


class PeerProcess:
    """A peer in a process of its own, pinned before its library is loaded; a context manager that ends the process."""

    def __init__(
        self, peer: Peer, threads: int, cores: Iterable[int], *, worker: str = _WORKER, timeout: float = 600.0
    ) -> None:
        """Starts the process and waits until the library is loaded.

        Args:
            peer: The row of the table.
            threads: How many threads the library may use.
            cores: The processors that it is pinned to.
            worker: The module that the process runs.
            timeout: Seconds after which a silent process counts as hung.

        Raises:
            TilewrightError: The library could not be loaded.
        """
        self.name = peer.name
        self._timeout = timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [*_command(peer.python(), worker), str(theirs.fileno()), peer.name, ",".join(map(str, cores))],
                env={**os.environ, **process_environment(threads), **peer.variables(threads)},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
            )
        try:
            self.version: str = self._answer()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PeerProcess:
        """The peer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self.close()

    def load(
        self,
        shape: Shape,
        dtype: str,
        seed: int,
        total_bytes: int,
        packed: bool = False,
        epilogue: str = "",
        layout: str = "nn",
    ) -> None:
        """See `Contender.load`."""
        self._ask("load", shape, dtype, seed, total_bytes, packed, epilogue, layout)

    def result(self) -> np.ndarray:
        """See `Contender.result`."""
        return self._ask("result")

    def calibrate(self, min_seconds: float) -> int:
        """See `Contender.calibrate`."""
        return self._ask("calibrate", min_seconds)

    def sample(self, count: int) -> float:
        """See `Contender.sample`."""
        return self._ask("sample", count)

    def unload(self) -> None:
        """See `Contender.unload`."""
        self._ask("unload")

    def close(self) -> None:
        """Ends the process: politely, then not."""
        self._connection.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _ask(self, method: str, *values: object) -> Any:  # noqa: ANN401 (whatever the method returns)
        try:
            self._connection.send((method, values))
        except OSError:
            raise self._death() from None
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401 (likewise)
        try:
            if not self._connection.poll(self._timeout):
                self._process.kill()
                raise TilewrightError(
                    f"no answer in {self._timeout:g} s",
                    where=f"peer {self.name}",
                    remedy=f"Leave {self.name} out of the peers, or measure smaller shapes",
                )
            fine, value = self._connection.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if not fine:
            raise TilewrightError(value, where=f"peer {self.name}")
        return value

    def _death(self) -> TilewrightError:
        """What to raise when the process is gone: how it ended, and its last words."""
        try:
            how = f"its process ended with status {self._process.wait(timeout=5)}"
        except subprocess.TimeoutExpired:
            how = "its process closed the connection"
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        return TilewrightError(
            f"{how}{': ' + words[-1] if words else ''}",
            where=f"peer {self.name}",
            remedy=f"Leave {self.name} out of the peers",
        )


def _command(python: Path, worker: str) -> list[str]:
    """The start of a command that runs the module `worker` in a peer's environment, or in ours with all that we import from.

    Isolated (-I): neither PYTHONPATH nor the folder where somebody stands brings another package in.
    """
    ours = python == Path(sys.executable)
    paths = [os.path.abspath(entry) for entry in sys.path if entry] if ours else [_PACKAGE]
    return [str(python), "-I", "-c", _START, os.pathsep.join(paths), worker]
