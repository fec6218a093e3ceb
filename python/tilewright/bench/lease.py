# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Leases cores of this machine to one measurement at a time, whatever processes measure.

A lease is a lock on the kernel's file of the core: it ends with its process, and holds between containers of one machine too.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tilewright.bench.timing import cores, every_core, same_core
from tilewright.errors import TargetError

_CPUS = Path("/sys/devices/system/cpu")
_PAUSE_S = 0.02


@contextmanager
def leased(count: int) -> Iterator[tuple[int, ...]]:
    """Waits for cores that nobody has leased, and keeps this thread, and what it starts, on them.

    Args:
        count: How many cores.

    Yields:
        A hardware thread of each.

    Raises:
        TargetError: This process may not run on so many cores, or they cannot be locked.
    """
    cores(count)
    allowed = os.sched_getaffinity(0)
    with ExitStack() as locks:
        while (ours := _locked(count, locks)) is None:
            time.sleep(_PAUSE_S)
        os.sched_setaffinity(0, ours)
        try:
            yield ours
        finally:
            os.sched_setaffinity(0, allowed)


def _locked(count: int, locks: ExitStack) -> tuple[int, ...] | None:
    """Locks so many cores, all or none: who waits holds nothing that others wait for."""
    with ExitStack() as taken:
        ours: list[int] = []
        for core in every_core():
            if len(ours) < count and _lock(core, taken):
                ours.append(core)
        if len(ours) < count:
            return None
        locks.push(taken.pop_all())
        return tuple(ours)


def _lock(core: int, locks: ExitStack) -> bool:
    """Locks one core, unless somebody else has."""
    path = _CPUS / f"cpu{min(same_core(core))}" / "topology" / "thread_siblings_list"
    try:
        file = locks.enter_context(path.open("rb"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise TargetError(
            f"cannot lock {path}: {error.strerror}",
            where="measuring",
            expected="the kernel's files of cores",
            remedy="Mount /sys, read-only is enough",
        ) from None
    return True
