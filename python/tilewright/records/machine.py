# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tells one machine from another: the facts of a target that decide code and its speed, and their digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from tilewright.targets.base import Target

_DIGITS = 16


def facts(target: Target) -> dict[str, Any]:
    """The instructions, the registers, the caches and the rates of a target, as JSON has them.

    A record of one machine is of use to another one only if all of them are equal.
    """
    caches = {name: asdict(each) for name in ("l1", "l2", "l3") if (each := getattr(target, name)) is not None}
    return {
        "triple": target.triple,
        "features": sorted(target.features),
        "core": target.base,
        "vector_bits": target.vector_bits,
        "scalable_bits": target.scalable_bits,
        "streaming_bits": target.streaming_bits,
        "fma_per_cycle": target.fma_per_cycle,
        "fma_latency": target.fma_latency,
        "loads_per_cycle": target.loads_per_cycle,
        "caches": caches,
    }


def digest(facts_: dict[str, Any]) -> str:
    """A name for a machine's facts."""
    text = json.dumps(facts_, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=64)
def key(target: Target) -> str:
    """The digest of a target's facts."""
    return digest(facts(target))
