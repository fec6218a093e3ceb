# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts what the processor did while this thread ran something: cycles, instructions, and misses of caches.

Linux counts by perf_event_open(2), where the processor's counters can be reached: many virtual machines have none, and
``/proc/sys/kernel/perf_event_paranoid`` may forbid them. Sources: ``linux/perf_event.h``, ``asm/unistd_64.h`` and ``asm-generic/unistd.h``,
and Linux's tables of what its events are on each processor: ``core.c`` in ``arch/x86/events/amd`` and ``arch/x86/events/intel``, and
``drivers/perf/arm_pmuv3.c``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from tilewright.errors import TargetError

LAST = "the last cache"
CORE: Mapping[str, tuple[int, int]] = MappingProxyType({"cycles": (0, 0), "instructions": (0, 1)})
"""By name, the kernel's type and number of what every processor that counts has."""
CACHES: tuple[tuple[str, int, int, str], ...] = (
    ("L1", 3, 0x10000, ""),
    (LAST, 3, 0x10002, ""),
    ("L2", 0, 3, "AuthenticAMD"),
)
"""By cache, the type and number of misses of it, and the only vendor for which they are that. A processor may lack each of them.

What Linux calls just cache misses are those of L2 on AMD's cores, which do not count those of L3, and of L1 on Arm's.
"""
_SYSTEM_CALL: Mapping[str, int] = MappingProxyType({"x86_64": 298, "aarch64": 241, "riscv64": 241})
_DISABLED, _NO_KERNEL, _NO_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_TIMES = 3
"""Read beside a count: how long its event was enabled, and how long counted. Events that are too many for the processor take turns."""
_ENABLE, _DISABLE = 0x2400, 0x2401
_REASONS: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOENT: "this machine gives no access to the processor's counters, as many virtual machines",
        errno.EOPNOTSUPP: "this machine gives no access to the processor's counters, as many virtual machines",
        errno.EACCES: "the kernel forbids it: /proc/sys/kernel/perf_event_paranoid has to be at most 2",
        errno.EPERM: "the kernel or a container forbids it",
        errno.ENOSYS: "the kernel has no perf_event_open",
    }
)


class Counter(Protocol):
    """One event, counted between `start` and `stop`."""

    def start(self) -> None:
        """Begins or goes on."""

    def stop(self) -> None:
        """Pauses."""

    def count(self) -> float:
        """What was counted; what took turns with other events is scaled to the whole time."""
        ...

    def close(self) -> None:
        """Gives the counter back."""


class _Event:
    """A counter of the kernel's, of this thread in user mode."""

    def __init__(self, kind: int, number: int) -> None:
        """Opens it, stopped.

        Raises:
            OSError: There is none.
        """
        system_call = _SYSTEM_CALL.get(platform.machine())
        if platform.system() != "Linux" or system_call is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        flags = _DISABLED | _NO_KERNEL | _NO_HYPERVISOR
        fields = struct.pack("IIQQQQQIIQ", kind, 64, number, 0, 0, _TIMES, flags, 0, 0, 0)
        attributes = ctypes.create_string_buffer(fields, len(fields))
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_long] * 4]
        self._file = int(call(system_call, ctypes.addressof(attributes), 0, -1, -1, 0))
        if self._file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def start(self) -> None:
        fcntl.ioctl(self._file, _ENABLE, 0)

    def stop(self) -> None:
        fcntl.ioctl(self._file, _DISABLE, 0)

    def count(self) -> float:
        counted, enabled, running = struct.unpack("QQQ", os.read(self._file, 24))
        return counted * enabled / running if running else 0.0

    def close(self) -> None:
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Counted:
    """What one call did on average.

    Attributes:
        cycles: Cycles of the core, in user mode.
        instructions: Those that retired.
        beyond: By cache, the bytes that lines brought from beyond it, where the processor counts them.
    """

    cycles: float
    instructions: float
    beyond: Mapping[str, float]


def count(
    call: Callable[[], object],
    repeats: int,
    line: int,
    last: str,
    vendor: str,
    opened: Callable[[int, int], Counter] = _Event,
) -> Counted:
    """Counts `repeats` calls, all on this thread.

    Args:
        call: What is counted.
        repeats: How often it is called, at least 1.
        line: Bytes of a cache's line.
        last: The name of the last cache.
        vendor: The processor's, as Linux names it.
        opened: Opens the counter of an event, given the kernel's type and number of it.

    Raises:
        TargetError: The counters cannot be reached; it says why.
    """
    with contextlib.ExitStack() as stack:

        def open_(kind: int, number: int) -> Counter:
            counter = opened(kind, number)
            stack.callback(counter.close)
            return counter

        counters: dict[str, Counter] = {}
        for name, (kind, number) in CORE.items():
            try:
                counters[name] = open_(kind, number)
            except OSError as error:
                reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
                raise TargetError(f"{name} are not counted: {reason}") from None
        for cache, kind, number, only in CACHES:
            if only in ("", vendor):
                with contextlib.suppress(OSError):
                    counters[last if cache == LAST else cache] = open_(kind, number)
        for each in counters.values():
            each.start()
        for _ in range(repeats):
            call()
        for each in counters.values():
            each.stop()
        found = {name: each.count() / repeats for name, each in counters.items()}
    beyond = {name: misses * line for name, misses in found.items() if name not in CORE}
    return Counted(found["cycles"], found["instructions"], beyond)
