# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of products for processors, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tilewright.runtime import tuned
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.made_product import MadeProduct
from tilewright.schedules import make
from tilewright.schedules.plan import Plan, Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import Target


def compile(
    spec: MatmulSpec,
    target: Target,
    threads: int,
    schedule: Schedule,
    *,
    parameters: Mapping[str, int] | None,
    cache: bool,
    verify: bool,
) -> Kernel:
    """As `tilewright.compile`, for a product on a processor.

    Raises:
        TilewrightError: As there.
    """
    start = time.perf_counter()
    chosen = tuned.choose(spec, target, schedule, parameters, threads)
    made = MadeProduct(spec, target, chosen, start, cache=cache)
    why = made.refusal()
    if why is not None:
        tuned.leave(spec, why)
        chosen = tuned.Chosen(make.make(spec, target, threads=threads), tuned.MODEL)
        made = MadeProduct(spec, target, chosen, start, cache=cache)
    if verify:
        made.verify()
    return made.kernel()


def plan(
    spec: MatmulSpec,
    target: Target,
    schedule: Schedule = None,
    parameters: Mapping[str, int] | None = None,
    threads: int = 1,
) -> Plan:
    """The plan under which `compile` compiles: what a measurement on this machine chose only once it is proved right.

    Raises:
        TilewrightError: As `compile` does.
    """
    chosen = tuned.choose(spec, target, schedule, parameters, threads)
    if chosen.trial is None:
        return chosen.plan
    facts = compile(spec, target, threads, None, parameters=None, cache=True, verify=False).metadata
    return make.make(spec, target, facts.schedule, facts.parameters, threads)
