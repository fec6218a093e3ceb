# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides which peers take part in a shape, and restarts one that failed for the next shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.peers import Peer
from tilewright.bench.rows import Rates
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError

_TOO_SLOW = 0.1  # of our rate
_LONG_CALL = 3.0  # seconds


class Team:
    """The processes of some peers; `close` ends them."""

    def __init__(self, peers: Sequence[Peer], threads: int, cores: Iterable[int], *, demanded: bool) -> None:
        """Starts them.

        Args:
            peers: Which.
            threads: Of each.
            cores: The processors that all are pinned to.
            demanded: Whether it is an error when one of them fails; otherwise it is left out.

        Raises:
            TilewrightError: A demanded peer does not start.
        """
        self._peers = peers
        self._threads = threads
        self._cores = tuple(cores)
        self._demanded = demanded
        self._processes: dict[str, PeerProcess] = {}
        self._broken: dict[str, str] = {}
        self._rates: dict[str, tuple[float, float]] = {}
        for peer in peers:
            self._start(peer)

    def close(self) -> None:
        """Ends every process."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def members(
        self, shape: Shape, dtype: str, packed: bool, layout: str = "nn"
    ) -> tuple[dict[str, tuple[PeerProcess, str]], dict[str, str]]:
        """The peers that take part in this shape, with the types of its product "a,b,c", and why the others do not."""
        present: dict[str, tuple[PeerProcess, str]] = {}
        absent: dict[str, str] = {}
        for peer in self._peers:
            types = peer.types(dtype, packed=packed)
            if types is None:
                absent[peer.name] = f"it has no product of {dtype}" + (" with B packed ahead of time" if packed else "")
            elif why := peer.cannot(shape, dtype, layout, packed=packed) or self._hopeless(peer.name, shape):
                absent[peer.name] = why
            elif peer.name in self._processes or self._start(peer):
                present[peer.name] = (self._processes[peer.name], ",".join(types))
            else:
                absent[peer.name] = self._broken[peer.name]
        return present, absent

    def fail(self, name: str, error: TilewrightError) -> str:
        """Ends the process of a peer that failed, and returns the reason in a line.

        Raises:
            TilewrightError: It was demanded; the same error.
        """
        if self._demanded:
            raise error
        process = self._processes.pop(name, None)
        if process is not None:
            process.close()
        return str(error).splitlines()[0]

    def remember(self, name: str, rates: Rates, ours: Rates) -> None:
        """Takes note of how fast a peer was."""
        before, share = self._rates.get(name, (0.0, 0.0))
        self._rates[name] = (max(before, rates.median), max(share, rates.median / ours.median))

    def _hopeless(self, name: str, shape: Shape) -> str | None:
        """Why it is not worth waiting for a peer, that was slow on every shape before: None when it is."""
        rate, share = self._rates.get(name, (0.0, 1.0))
        if self._demanded or share >= _TOO_SLOW or shape.flops < _LONG_CALL * rate * 1e9:
            return None
        return f"too slow: at most {rate:.1f} GFLOP/s on other shapes, where it had under a tenth of our speed"

    def _start(self, peer: Peer) -> bool:
        """Starts a process; whether that worked."""
        try:
            self._processes[peer.name] = PeerProcess(peer, self._threads, self._cores)
        except TilewrightError as error:
            if self._demanded:
                self.close()
                raise
            self._broken[peer.name] = str(error).splitlines()[0]
            return False
        return True
