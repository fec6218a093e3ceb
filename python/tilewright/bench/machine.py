# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What this machine is, in a line for a report: never its name."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.targets.host import host, machine

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def describe(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name, how many of them, the caches that a core sees, and the target whose rows it is measured by."""
    target = host()
    architecture, flags = machine()
    caches = [("L1d", target.l1), ("L2", target.l2), *((("L3", target.l3),) if target.l3 else ())]
    parts = [
        _model(cpuinfo) or architecture,
        f"{len(os.sched_getaffinity(0))} CPUs",
        *(f"{name} {_size(cache.bytes)}" for name, cache in caches),
        f"target {target.base}",
        *(("virtual machine",) if "hypervisor" in flags else ()),
    ]
    return ", ".join(parts)


def _model(cpuinfo: Path) -> str | None:
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        return None
    return None


def _size(count: int) -> str:
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} B"
