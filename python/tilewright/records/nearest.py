# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds what won for a spec on other machines, the nearest first: where a search may start, and never what compilation takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.records import lookup, machine
from tilewright.records.database import Database, read_lines
from tilewright.records.trial import Trial, canonical, parse
from tilewright.targets.base import Target

_NUMBERS = ("vector_bits", "scalable_bits", "streaming_bits", "fma_per_cycle", "loads_per_cycle")
_CACHES = ("l1", "l2", "l3")
_FEATURE = 1 / 16
"""What a feature that one of two machines lacks counts, in doublings of a size: only few of them decide code."""


def winners(database: Database, spec: str, threads: int, target: Target) -> list[Trial]:
    """The last final comparisons that were won, one a machine: of the database and of what ships, the nearest machine's first.

    Those of this machine are among them, as of an earlier version. Machines of another architecture are left out.

    Args:
        database: Whose trials, of any machine.
        spec: The canonical text of the spec.
        threads: Most threads of a call.
        target: This machine.
    """
    last: dict[str, Trial] = {}
    for each in sorted([*_own(database, spec, threads), *_shipped(spec, threads)], key=lambda each: each.moment):
        last[machine.digest(dict(each.machine))] = each
    here = machine.facts(target)
    found = [(distance(here, each.machine), key, each) for key, each in last.items() if each.verdict == "won"]
    return [each for far, _, each in sorted(found, key=lambda each: each[:2]) if far < math.inf]


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How far two machines are apart: doublings from one's registers, rates and caches to the other's, and features that one lacks.

    Infinite for other architectures.

    Args:
        one: A machine's facts (`machine.facts`).
        other: Another one's.
    """
    if one.get("triple") != other.get("triple"):
        return math.inf
    far = sum(_doublings(one.get(name), other.get(name)) for name in _NUMBERS)
    mine, others = one.get("caches", {}), other.get("caches", {})
    far += sum(_doublings(_bytes(mine, name), _bytes(others, name)) for name in _CACHES)
    return far + _FEATURE * len(set(one.get("features", ())) ^ set(other.get("features", ())))


def _own(database: Database, spec: str, threads: int) -> Iterable[Trial]:
    found = (parse(line, str(database.path)) for line in database.lines_of(spec, threads))
    return (each for each in found if each.final)


def _shipped(spec: str, threads: int) -> Iterable[Trial]:
    every = (each for file in sorted(lookup.SHIPPED.glob("*.jsonl")) for each in read_lines(file))
    return (each for each in every if each.final and each.threads == threads and canonical(each.spec) == spec)


def _bytes(caches: Mapping[str, Any], name: str) -> float:
    return caches.get(name, {}).get("bytes", 0)


def _doublings(one: float | None, other: float | None) -> float:
    """Of numbers that may be zero, or absent."""
    return abs(math.log2((one or 0) + 1) - math.log2((other or 0) + 1))
