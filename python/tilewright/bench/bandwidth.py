# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the bandwidth from each level of memory: the slanted lines of a roofline."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing

from tilewright.bench.peak import StreamPeak
from tilewright.bench.timing import pinned
from tilewright.targets import Target
from tilewright.targets.host import host

_SAMPLES = 3
_LEAST_MEMORY = 2**28  # bytes: beyond any cache that a machine might not tell about


def working_sets(machine: Target, threads: int) -> dict[str, int]:
    """By level, the bytes that all threads together read: half of the level's capacity; for memory, twice the last level's.

    None is more than a quarter of what the process may allocate: a virtual machine may tell of a last level of 480 MiB.
    """
    shares = max(1, threads)
    sets = {"L1": machine.l1.bytes * shares // 2, "L2": machine.l2.bytes * shares // 2}
    last = machine.l2.bytes * shares
    if machine.l3 is not None:
        last = machine.l3.bytes
        sets["L3"] = last // 2
    sets["memory"] = max(2 * last, _LEAST_MEMORY)
    allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
    most = max(sets.values()) if allowed == resource.RLIM_INFINITY else allowed // 4
    return {level: min(size, most) for level, size in sets.items()}


def by_level(target: Target, cores: Sequence[int], seconds: float = 0.02) -> Mapping[str, float]:
    """10⁹ bytes a second that `cores` read together from each level, the median of a few samples.

    Args:
        target: What the loop is compiled for.
        cores: Processors, one thread on each.
        seconds: What a sample lasts at least.
    """
    found: dict[str, float] = {}
    for level, size in working_sets(host(), len(cores)).items():
        with closing(StreamPeak(target, size, cores)) as stream, pinned(cores):
            count = stream.calibrate(seconds)
            found[level] = statistics.median(stream.sample(count) for _ in range(_SAMPLES)) * 1e-9
    return found
