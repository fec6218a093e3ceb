# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of functions of tensors, through the disk cache: those of a module, or the one of an operator or of a chain of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.emit.built import Built
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.payload.signature import Signature
from tilewright.runtime import cache_key, load
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.linkable import of_functions
from tilewright.runtime.module import Function
from tilewright.runtime.runners import Runner
from tilewright.targets import Target


def functions(
    what: Compilation,
    target: Target,
    who: Runner,
    make: Callable[..., Built],
    *,
    schedule: str,
    sizes: Callable[[Sequence[Signature]], Mapping[str, Any]],
    cache: bool,
    start: float,
    kind: type[Function] = Function,
) -> tuple[dict[str, Kernel], About]:
    """The functions that a compilation makes, by name, and what is known of all of them.

    Args:
        what: The compilation.
        target: For which target, as it was given.
        who: Who runs them.
        make: Compiles them; takes fields of `pipeline.Wanted`.
        schedule: What metadata calls the schedule.
        sizes: What it has of the products, by the functions' signatures.
        cache: Whether the disk cache is read and written.
        start: When the compilation began, as `time.perf_counter` counts seconds.
        kind: The class of the functions.
    """

    def made() -> tuple[Built, dict[str, Any]]:
        built = make()
        return built, {"functions": [each.as_json() for each in built.functions]}

    got = cache_key.fetch(what, made, cache=cache)
    signatures = tuple(Signature.from_json(each) for each in got.about["functions"])
    facts = Metadata.of(
        target,
        schedule=schedule,
        parameters=sizes(signatures),
        threads=what.threads,
        workspace_bytes=Built(functions=signatures).workspace,
        emulator=who.name,
        **got.facts(start),
    )
    # A module without products, and with nothing to vectorize, has no schedule.
    texts = StageTexts.made(CPU_TEXTS, lambda stage: make(until=stage).texts.get(stage, ""), got.record.texts)
    about = About(what.problem, target, facts, texts, of_functions(target, what.threads, make).write)
    linked = load.functions(got.record.object, signatures, about, who, kind)
    return {each.name: function for each, function in zip(signatures, linked, strict=True)}, about
