# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The object of functions of tensors, from the disk cache or compiled: those of a module, or the one of an operator or of a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.emit.built import Built
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.signature import Signature
from tilewright.records.trial import Trial, schedule_digest
from tilewright.runtime import cache_key, load, tuned
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.linkable import of_functions
from tilewright.runtime.module import Function
from tilewright.runtime.runners import Runner
from tilewright.targets import Target


class MadeFunctions:
    """The object of some functions, and what is known of it.

    Attributes:
        what: The compilation.
        got: What came of it, with the digest of its schedule.
        signatures: What the functions take and give.
        metadata: How they came about.
    """

    def __init__(
        self,
        what: Compilation,
        target: Target,
        who: Runner,
        make: Callable[..., Built],
        *,
        schedule: str,
        sizes: Callable[[Sequence[Signature]], Mapping[str, Any]],
        cache: bool,
        start: float,
        chosen_by: str = "",
    ) -> None:
        """Fetches the object, or compiles.

        Args:
            what: The compilation.
            target: For which target, as it was given.
            who: Who runs them.
            make: Compiles them; takes fields of `pipeline.Wanted`.
            schedule: What metadata calls the schedule.
            sizes: What it has of the products, by the functions' signatures.
            cache: Whether the disk cache is read and written.
            start: When the compilation began, as `time.perf_counter` counts seconds.
            chosen_by: Who chose the schedule.
        """

        def made() -> tuple[Built, dict[str, Any]]:
            # A user's function may make another schedule when it is asked again; what it made is not cached.
            built = make(texts=what.own is not None or not cache)
            digest = schedule_digest(built.texts.get("schedule", ""))
            return built, {"functions": [each.as_json() for each in built.functions], "digest": digest}

        self.what, self._target, self._who, self._make = what, target, who, make
        self.got = cache_key.fetch(what, made, cache=cache)
        self.signatures = tuple(Signature.from_json(each) for each in self.got.about["functions"])
        self.metadata = Metadata.of(
            target,
            schedule=schedule,
            parameters=sizes(self.signatures),
            threads=what.threads,
            workspace_bytes=Built(functions=self.signatures).workspace,
            emulator=who.name,
            chosen_by=chosen_by,
            **self.got.facts(start),
        )

    def refusal(self, trial: Trial) -> str | None:
        """Why the record that chose an operator's schedule is not to be used; None where it may be."""
        return tuned.refusal(trial, self.what, self.got, self._verify)

    def _verify(self) -> bool:
        """Tries an operator's function in a child process, where something here runs it; whether it was compared."""
        if self._who.refusal is not None:
            return False
        from tilewright.runtime import verification

        spec, (form,) = self.what.problem, self.signatures
        assert isinstance(spec, OperatorSpec), "records are of operators"
        return verification.verify(self.got.record.object, spec, self._target, self.metadata, form, self._who)

    def linked(self, kind: type[Function] = Function) -> tuple[dict[str, Kernel], About]:
        """The functions, of that class, by name, and what is known of all of them."""
        make, target = self._make, self._target
        # A module without products, and with nothing to vectorize, has no schedule.
        texts = StageTexts.made(CPU_TEXTS, lambda stage: make(until=stage).texts.get(stage, ""), self.got.record.texts)
        write = of_functions(target, self.what.threads, make).write
        about = About(self.what.problem, target, self.metadata, texts, write)
        linked = load.functions(self.got.record.object, self.signatures, about, self._who, kind)
        return {each.name: function for each, function in zip(self.signatures, linked, strict=True)}, about
