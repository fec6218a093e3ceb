# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps children that have imported the compiler and wait for work: each works once, so that schedules share nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

from tilewright import knobs
from tilewright.lab.sandbox import Sandbox
from tilewright.processes.child import Child

_WORKER = "tilewright.lab.worker"
READY = b"ready"
"""What a child sends when it waits for its request; the time before is none of the answer's."""
CODE = "code"
"""The key of the code, which a child tells as soon as it is made, to be analyzed while the child reads what else is shown."""
_START_SECONDS = 60.0


class Spares:
    """The children. A context manager that ends them."""

    def __init__(self, sandbox: Sandbox, count: int) -> None:
        """Starts `count` of them, in `sandbox`."""
        self._sandbox, self._count = sandbox, count
        self._lock = Lock()
        self._idle: list[Child] = []
        self._working: dict[str, Child] = {}
        self._open = True
        # bubblewrap ends what it runs when the thread ends that started it.
        self._starter = ThreadPoolExecutor(1)
        self._starter.submit(self._fill).result()

    def __enter__(self) -> Spares:
        """The children themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all."""
        with self._lock:
            self._open = False
            ending = [*self._idle, *self._working.values()]
            self._idle = []
        for child in ending:
            child.kill()
        self._starter.shutdown()

    @contextmanager
    def one(self, who: str) -> Iterator[Child]:
        """A child that waits for its one request. One that still works for `who` is ended: nobody waits for it any more."""
        with self._lock:
            former = self._working.pop(who, None)
            child = self._idle.pop() if self._idle else None
        if former is not None:
            former.kill()
        child = child or self._starter.submit(self._start).result()
        with self._lock:
            self._working[who] = child
        try:
            child.receive_bytes(_START_SECONDS, len(READY))
            yield child
        finally:
            with self._lock:
                if self._working.get(who) is child:
                    del self._working[who]
            child.close()
            if self._open:
                self._starter.submit(self._fill)

    def _fill(self) -> None:
        """Starts as many as are missing."""
        with self._lock:
            missing = self._count - len(self._idle) if self._open else 0
            self._idle += [self._start() for _ in range(missing)]

    def _start(self) -> Child:
        variables = knobs.overrides()
        return Child(_WORKER, variables=variables, within=self._sandbox.command(variables))
