# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parent's end of a peer's process: wraps it as a contender, and turns its death and errors into our errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.bench.peers import Peer, process_environment
from tilewright.errors import TilewrightError
from tilewright.processes.child import Child, ChildEndedError

_WORKER = "tilewright.bench.peer_worker"
_LAST_SECONDS = 5.0
"""Until a process that is no longer needed has ended by itself."""


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
        self._process = Child(
            worker,
            peer.name,
            ",".join(map(str, cores)),
            python=peer.python(),
            variables={**process_environment(threads), **peer.variables(threads)},
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

    def load(self, *problem: object, **how: object) -> None:
        """See `Local.load`, or that of the contender in the process."""
        self._ask("load", *problem, **how)

    def result(self) -> np.ndarray:
        """See `Calls.result`."""
        return self._ask("result")

    def calibrate(self, min_seconds: float) -> int:
        """See `Calls.calibrate`."""
        return self._ask("calibrate", min_seconds)

    def sample(self, count: int) -> float:
        """See `Calls.sample`."""
        return self._ask("sample", count)

    def unload(self) -> None:
        """See `Calls.unload`."""
        self._ask("unload")

    def close(self) -> None:
        """Ends the process, by force if it does not end by itself."""
        self._process.close(_LAST_SECONDS)

    def _ask(self, method: str, *values: object, **named: object) -> Any:  # noqa: ANN401 (whatever the method returns)
        try:
            self._process.send((method, values, named))
        except ChildEndedError as error:
            raise self._death(error) from None
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401 (likewise)
        try:
            fine, value = self._process.receive(self._timeout)
        except ChildEndedError as error:
            raise self._death(error) from None
        if not fine:
            raise TilewrightError(value, where=f"peer {self.name}")
        return value

    def _death(self, ended: ChildEndedError) -> TilewrightError:
        """What to raise when the process is gone: how it ended, and its last words."""
        words = ended.output.strip().splitlines()
        smaller = ", or measure smaller shapes" if ended.status is None else ""
        return TilewrightError(
            f"its process {ended.reason}{': ' + words[-1] if words else ''}",
            where=f"peer {self.name}",
            remedy=f"Leave {self.name} out of the peers{smaller}",
        )
