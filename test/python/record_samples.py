# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trials for tests: of no machine that there is, unless they are given one."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec
from tilewright.records import machine
from tilewright.records.trial import Trial
from tilewright.targets import get

SPEC = tw.MatmulSpec(m=64, n=96, k=128)
SIZES = {"mr": 4, "nr": 32, "mc": 64, "nc": 96, "kc": 128}


def trial(number: int = 0, spec: Spec = SPEC, **fields: Any) -> Trial:
    """A trial of that number, the same for the same arguments."""
    given: dict[str, Any] = {
        "machine": machine.facts(get("x86-64-v4")),
        "spec": spec_tables.table(spec),
        "threads": 1,
        "strategy": "unpacked",
        "sizes": SIZES,
        "schedule": f"{number:064x}",
        "versions": {"tilewright": "0.1.0", "llvm": "22.1.8"},
        "samples": (1e-4, 1.5e-4),
        "model": {"strategy": "unpacked", "sizes": SIZES, "samples": [2e-4, 2.5e-4]},
        "peak": 100.0,
        "error": 0.25,
        "final": True,
        "verdict": "won",
        "gain": 1.5,
        "moment": "2026-11-23T06:00:00.000000Z",
    }
    return Trial(**given | fields)
