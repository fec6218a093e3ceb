# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The object of a product: from the disk cache or compiled, tried where it has to be, and made a kernel."""

from __future__ import annotations

from typing import Any

from tilewright.emit.pipeline import CPU_TEXTS, Record
from tilewright.records.trial import schedule_digest
from tilewright.runtime import cache_key, load, runners, tuned
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.product_files import build, linkable
from tilewright.runtime.tuned import Chosen
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets import Target


class MadeProduct:
    """The object of a product, from the cache or compiled."""

    def __init__(self, spec: MatmulSpec, target: Target, chosen: Chosen, start: float, *, cache: bool) -> None:
        """Fetches it, or compiles.

        Args:
            spec: What is computed.
            target: For which target.
            chosen: Under which plan.
            start: When the compilation began, as `time.perf_counter` counts seconds.
            cache: Whether the disk cache is read and written.
        """
        self._spec, self._target, self._chosen = spec, target, chosen
        plan = chosen.plan
        self._who = runners.of(target).sharing(target, plan.threads).computing(spec, plan.name)
        self._what = _described(spec, target, plan) if cache else None
        self._got = got = cache_key.fetch(self._what, self._build, cache=cache)
        packed = got.about["packed"]
        self._packed = PackedFormat.from_header(bytes.fromhex(packed)) if packed else None
        if got.about["spilled"]:
            from tilewright.emit import spills

            spills.warn(got.about["spilled"], plan, target)
        self._facts = Metadata.of(
            target,
            schedule=plan.name,
            parameters=plan.sizes,
            threads=plan.threads,
            workspace_bytes=got.about["workspace"],
            emulator=self._who.name,
            chosen_by=chosen.by,
            **got.facts(start),
        )

    def _build(self) -> tuple[Record, dict[str, Any]]:
        from tilewright.emit import spills

        plan = self._chosen.plan
        # A user's function may make another schedule when it is asked again.
        built = build(self._spec, self._target, plan, texts=not plan.trusted)
        packed = None if built.packed is None else built.packed.header.hex()
        about = {"spec": str(self._spec), "schedule": plan.name, "workspace": built.workspace, "packed": packed}
        digest = schedule_digest(built.texts.get("schedule", ""))
        return built, about | {"spilled": spills.count(built), "digest": digest}

    def verify(self) -> bool:
        """Tries the kernel in a child process, where something here runs it; whether it was compared.

        Raises:
            WrongResultError: Its numbers are wrong.
        """
        from tilewright.runtime import verification

        if self._who.refusal is not None:
            verification.warn(self._spec, self._who.refusal.what)
            return False
        return verification.verify(
            self._got.record.object, self._spec, self._target, self._facts, self._packed, self._who
        )

    def refusal(self) -> str | None:
        """Why the record that chose the schedule is not to be used; None where it may be, or none did."""
        trial = self._chosen.trial
        return None if trial is None else tuned.refusal(trial, self._what, self._got, self.verify)

    def kernel(self) -> Kernel:
        """The kernel."""
        spec, target, plan = self._spec, self._target, self._chosen.plan

        def text(stage: str) -> str:
            # A product without arithmetic has no schedule.
            return build(spec, target, plan, until=stage).texts.get(stage, "")

        texts = StageTexts.made(CPU_TEXTS, text, self._got.record.texts)
        about = About(spec, target, self._facts, texts, linkable(spec, target, plan).write)
        return load.product(self._got.record.object, about, self._packed, self._who)


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
