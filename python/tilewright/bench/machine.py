# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Describes the machine in a line for a report, without its name, and the version of our source."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from tilewright.targets.host import host, machine
from tilewright.version import VERSION

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


def slug(description: str) -> str:
    """A name for files of a machine, from its line: its processor and its target, such as "amd-epyc-znver4"."""
    processor, *others = description.split(", ")
    target = "".join(part.removeprefix("target") for part in others if part.startswith("target "))
    model = re.sub(r"\([^)]*\)|CPU|Processor|@.*", " ", processor)
    return re.sub(r"[^a-z0-9]+", "-", f"{model} {target}".lower()).strip("-")


@cache
def version() -> str:
    """Our version and, in a checkout, the commit: "0.1.0, commit 31f7507"; "and changes" where sources differ from it."""
    commit = _git("rev-parse", "--short", "HEAD")
    if not commit:
        return VERSION
    changed = _git("status", "--porcelain", "--", "*.py", "*.cpp", "*.h")
    return f"{VERSION}, commit {commit}{' and changes' if changed else ''}"


def _git(*words: str) -> str:
    """What git says of the checkout that this file lies in, or "" where it is none."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
