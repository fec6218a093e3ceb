# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Detects this machine: features, caches, and, for issue rates only, the core.

Linux only: /proc/cpuinfo for the features, /sys for the caches, and /proc/sys/abi for the lengths of AArch64's scalable vectors.
Everything that reads takes the text or the path as an argument, so that any machine can be described without being there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tilewright.errors import NotRunnableError, TargetError
from tilewright.targets import amx
from tilewright.targets.base import RATES, Cache, Family, Target, check_vector_length
from tilewright.targets.registry import FAMILIES, family_of

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_LENGTHS = Path("/proc/sys/abi")
_UNITS: Mapping[str, int] = {"K": 1024, "M": 1024**2, "G": 1024**3}


def first_cpu(cpuinfo: Iterable[str]) -> dict[str, str]:
    """What the lines of a /proc/cpuinfo say of the first CPU, by name; reads no further than that."""
    said: dict[str, str] = {}
    for line in cpuinfo:
        key, _, value = (part.strip() for part in line.partition(":"))
        if not key or key in said:  # The next CPU's come after an empty line.
            break
        said[key] = value
    return said


def cpu_flags(cpu: Mapping[str, str]) -> frozenset[str]:
    """The flags of a CPU, as from `first_cpu`; empty when it says none.

    Linux lists there only what every CPU of the machine has.
    """
    if "isa" in cpu:
        return _extensions(cpu["isa"])
    return frozenset((cpu.get("flags") or cpu.get("Features") or "").split())


def identity(cpu: Mapping[str, str]) -> str:
    """What core a CPU is, as from `first_cpu`: "AuthenticAMD 26 2", "0x41 0xd0c"; empty when it does not say.

    The maker, family and model of an x86-64 core; the implementer and part of an Arm one.
    """
    for names in (("vendor_id", "cpu family", "model"), ("CPU implementer", "CPU part")):
        if all(name in cpu for name in names):
            return " ".join(cpu[name] for name in names)
    return ""


def _extensions(isa: str) -> frozenset[str]:
    """The extensions that RISC-V's "isa" line names, as in "rv64imafdcv_zba_zbb"; g stands for the general ones."""
    letters, *names = isa.lower().split("_")
    return frozenset((*letters.removeprefix("rv64").replace("g", "imafd"), *names))


def llvm_features(flags: Iterable[str], family: Family) -> frozenset[str]:
    """The LLVM features that Linux's `flags` stand for; flags that generate no code are left out."""
    return frozenset(feature for flag in flags for feature in family.flags.get(flag, ()))


def read_caches(directory: Path) -> dict[int, Cache]:
    """The data and unified caches by level (1, 2, 3) that a ``cpu*/cache`` folder of sysfs describes.

    A level that is absent, unreadable or inconsistent is left out; virtual machines show all three. Where sysfs says
    nothing, the associativity counts as one way, the line as 64 bytes, and the cache as private.
    """
    caches: dict[int, Cache] = {}
    for index in sorted(directory.glob("index[0-9]*")):
        try:
            if (index / "type").read_text().strip() not in ("Data", "Unified"):
                continue
            level = int((index / "level").read_text())
            size = _bytes((index / "size").read_text())
            line = _number(index / "coherency_line_size") or 64
            ways = _number(index / "ways_of_associativity")
            cpus = _count_cpus(index / "shared_cpu_list")
            # Linux says 0 ways for a fully associative cache; without the file, direct-mapped is the safe guess.
            caches[level] = Cache(size, ways=size // line if ways == 0 else ways or 1, line=line, cpus=cpus)
        except (OSError, ValueError, TargetError):
            continue
    return caches


def read_lengths(directory: Path) -> dict[str, int]:
    """The bits of the scalable vectors of "sve" and "sme" that a process starts with, as Linux's ``/proc/sys/abi`` says them.

    What is absent, or no length that vectors can have, is left out.
    Source: Linux's Documentation/arch/arm64/sve.rst and sme.rst, "System runtime configuration".
    """
    lengths: dict[str, int] = {}
    for name in ("sve", "sme"):
        try:
            size = int((directory / f"{name}_default_vector_length").read_text())
            lengths[name] = check_vector_length(8 * size, str(directory))
        except (OSError, ValueError, TargetError):
            continue
    return lengths


def _bytes(text: str) -> int:
    """Bytes of sysfs's "48K"."""
    text = text.strip()
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def _number(file: Path) -> int | None:
    """The number in `file`, or None when it is absent or empty."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _count_cpus(file: Path) -> int:
    """How many CPUs sysfs's list ("0-3,8") names; 1 when the file is absent."""
    try:
        ranges = [part.split("-") for part in file.read_text().strip().split(",") if part]
    except OSError:
        return 1
    return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges) or 1


def describe(
    architecture: str,
    flags: Collection[str],
    caches: Mapping[int, Cache],
    lengths: Mapping[str, int] | None = None,
    core: str = "",
) -> Target:
    """The target of a machine: the most specific row that it can run, with its own caches and all its features.

    Features decide which instructions are used. How the core issues them is that of the row, or, where another core has the same
    features, of the row that its `identity` names.

    Args:
        architecture: What ``uname -m`` says.
        flags: Linux's CPU flags, as from `cpu_flags`.
        caches: By level, as from `read_caches`; the row's caches stand in for those that are missing.
        lengths: Of scalable vectors, as from `read_lengths`; likewise, where the machine has such vectors.
        core: What core it is, as from `identity`.

    Returns:
        A target named "host"; its `base` is the row's name.

    Raises:
        TargetError: The architecture has no rows, or the machine lacks what the plainest row needs.
    """
    family = family_of(architecture)
    features = llvm_features(flags, family)
    row = next((row for row in reversed(family.rows) if row.features <= features), None)
    if row is None:
        plainest = family.rows[0]
        raise TargetError(
            f"this {architecture} machine lacks {', '.join(plainest.missing_from(features))}",
            where="host",
            expected=f"at least the features of {plainest.name}",
            remedy=f"Check that {_CPUINFO} lists the CPU's flags, or name a target",
        )
    named = next((each for each in family.rows if each.name == family.cores.get(core)), row)
    issuing = named if named.vector_bits == row.vector_bits else row
    found = {"sve": row.scalable_bits, "sme": row.streaming_bits, **(lengths or {})}
    l1 = caches.get(1, row.l1)
    l2 = caches.get(2, row.l2)
    if l1.bytes > l2.bytes:
        l1, l2 = row.l1, row.l2
    return replace(
        row,
        name="host",
        base=row.name,
        features=row.features | features,
        l1=l1,
        l2=l2,
        l3=caches.get(3) if caches else row.l3,
        scalable_bits=found["sve"] if row.scalable_bits else 0,
        streaming_bits=found["sme"] if row.streaming_bits else 0,
        source=f"this machine's features and caches ({_CPUINFO}, {_CACHES}); otherwise {row.source}",
        **{name: getattr(issuing, name) for name in RATES},
    )


@functools.cache
def machine() -> tuple[str, frozenset[str]]:
    """The architecture of this machine as ``uname -m`` says it, and Linux's flags of its CPUs; read once.

    The flags are empty where there is no /proc/cpuinfo. Where the CPU has AMX the process asks for permission to use it,
    and AMX's flags are left out when that is refused.
    """
    return os.uname().machine, amx.usable(cpu_flags(_cpu()))


def vendor() -> str:
    """Who made this machine's CPUs, as Linux names it on x86-64: "AuthenticAMD"; empty elsewhere."""
    return _cpu().get("vendor_id", "")


def _cpu() -> Mapping[str, str]:
    """What /proc/cpuinfo says of the first CPU; empty where there is none."""
    try:
        with _CPUINFO.open(encoding="utf-8", errors="replace") as lines:
            return first_cpu(lines)
    except OSError:
        return {}


@functools.cache
def host() -> Target:
    """This machine as a target, read once a process; see `describe`.

    Raises:
        TargetError: There is no row for this machine.
    """
    architecture, flags = machine()
    return describe(architecture, flags, read_caches(_CACHES), read_lengths(_LENGTHS), identity(_cpu()))


def runnable(target: Target, features: Collection[str] | None = None) -> tuple[str, ...]:
    """What `target` needs and a machine lacks, sorted: empty when its code runs there.

    Args:
        target: What the code was made for.
        features: LLVM features of a machine of the target's architecture; None is this machine.

    Returns:
        The missing features; only the target's architecture when this machine is of another one.
    """
    if features is not None:
        return target.missing_from(features)
    architecture, flags = machine()
    for family in FAMILIES:
        if architecture in family.architectures and target.architecture in family.architectures:
            return target.missing_from(llvm_features(flags, family))
    return (target.architecture,)


def require_runnable(target: Target, features: Collection[str] | None = None) -> None:
    """Checks that `runnable` finds nothing missing.

    Raises:
        NotRunnableError: Code for `target` does not run there; the message names what is missing.
    """
    missing = runnable(target, features)
    if missing:
        raise NotRunnableError(
            f"this machine cannot run code for {target.name}: it lacks {', '.join(missing)}",
            remedy="Use target='host' to run here; to compile for another machine, do not call the kernel",
        )
