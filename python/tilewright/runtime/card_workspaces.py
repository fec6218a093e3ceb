# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a card in which blocks of a launch leave sums for others: zeros before the first launch, and its flags zeros behind each.

Launches on a stream come one after the other, and use the same memory; those on several streams may run at the same time. So may a
graph and the stream that it was captured on: each capture has memory of its own, which is kept as long as the kernel.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.runtime.cuda_core import checked

_PER_THREAD = 2
"""The handle of a stream that is another one in each thread. Source: CUDA Driver API, CU_STREAM_PER_THREAD."""
_NON_BLOCKING = 1
_CAPTURING = 1
"""CU_STREAM_CAPTURE_STATUS_ACTIVE."""


class Workspaces:
    """Such memory of one kernel on a card, which has to be the current one."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 - the driver's bindings
        """Has none at first; what there will be is freed with this object."""
        self._driver = driver
        self._places: dict[object, int] = {}
        self._lock = threading.Lock()
        self._freed = weakref.finalize(self, _free, driver, self._places)

    def key(self, stream: int) -> object:
        """What tells launches on a stream from others that may run at the same time: the stream, and what captures it."""
        thread = threading.get_ident() if stream == _PER_THREAD else 0
        status, capturing, capture, *_ = self._driver.cuStreamGetCaptureInfo(self._driver.CUstream(stream))
        # Where that fails, the launch will too, and says why.
        return stream, thread, int(capture) if not status and int(capturing) == _CAPTURING else 0

    def of(self, stream: int, bytes_: int) -> int:
        """The address of so many bytes for launches on a stream: always as many."""
        key = self.key(stream)
        with self._lock:
            if key not in self._places:
                self._places[key] = self._zeros(bytes_)
            return self._places[key]

    def _zeros(self, bytes_: int) -> int:
        """New memory, in which zeros are when this returns, also while a graph captures what is launched."""
        driver = self._driver
        with _uncaptured(driver):
            place = int(checked(driver.cuMemAlloc(bytes_)))
            stream = checked(driver.cuStreamCreate(_NON_BLOCKING))
            checked(driver.cuMemsetD8Async(place, 0, bytes_, stream))
            checked(driver.cuStreamSynchronize(stream))
            checked(driver.cuStreamDestroy(stream))
        return place


@contextmanager
def _uncaptured(driver: Any) -> Iterator[None]:  # noqa: ANN401 - the driver's bindings
    """Allows what a graph does not capture while one captures. Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode."""
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked(driver.cuThreadExchangeStreamCaptureMode(relaxed))
    try:
        yield
    finally:
        checked(driver.cuThreadExchangeStreamCaptureMode(before))


def _free(driver: Any, places: dict[object, int]) -> None:  # noqa: ANN401 - the driver's bindings
    """Frees memory when nothing uses it any longer, which the driver waits for."""
    for place in places.values():
        driver.cuMemFree(place)
