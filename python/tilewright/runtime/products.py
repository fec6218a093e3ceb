# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of products for processors, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.runtime import cache_key, load, runners
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.product_files import build, linkable
from tilewright.schedules import make
from tilewright.schedules.plan import Plan, Schedule
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright.emit.stages import Stages


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
    who = runners.of(target)
    plan = make.make(spec, target, schedule, parameters, threads)
    who = who.sharing(target, plan.threads).computing(spec, plan.name)

    def made() -> tuple[Stages, dict[str, Any]]:
        from tilewright.emit import spills

        built = build(spec, target, plan)
        packed = None if built.packed is None else built.packed.header.hex()
        about = {"spec": str(spec), "schedule": plan.name, "workspace": built.workspace, "spilled": spills.count(built)}
        return built, about | {"packed": packed}

    got = cache_key.fetch(_described(spec, target, plan) if cache else None, made, cache=cache)
    packed = PackedFormat.from_header(bytes.fromhex(got.about["packed"])) if got.about["packed"] else None
    if got.about["spilled"]:
        from tilewright.emit import spills

        spills.warn(got.about["spilled"], plan, target)
    facts = Metadata.of(
        target,
        schedule=plan.name,
        parameters=plan.sizes,
        threads=plan.threads,
        workspace_bytes=got.about["workspace"],
        emulator=who.name,
        **got.facts(start),
    )
    if verify:
        from tilewright.runtime import verification

        if who.refusal is not None:
            verification.warn(spec, who.refusal.what)
        else:
            verification.verify(got.record.object, spec, target, facts, packed, who)

    def text(stage: str) -> str:
        # A product without arithmetic has no schedule.
        return build(spec, target, plan, until=stage).texts.get(stage, "")

    about = About(
        spec, target, facts, StageTexts.made(CPU_TEXTS, text, got.record.texts), linkable(spec, target, plan).write
    )
    return load.product(got.record.object, about, packed, who)


def _described(spec: MatmulSpec, target: Target, plan: Plan) -> Compilation | None:
    """What decides the object; None when that cannot be told without compiling, as for a user's Python function."""
    if plan.text is None and not plan.trusted:
        return None
    return Compilation(
        kind="product",
        problem=spec,
        target=target,
        schedule=plan.name if plan.text is None else None,
        own=plan.text,
        parameters=plan.sizes,
        threads=plan.threads,
        cases=plan.cases,
    )
