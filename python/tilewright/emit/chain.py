# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a chain of products for a CPU: one function, whose products each take the result of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tilewright.emit import child
from tilewright.emit.built import Built
from tilewright.emit.module_stages import Builder, FunctionPart
from tilewright.emit.pipeline import Wanted
from tilewright.mlir import ir
from tilewright.payload import chain_check
from tilewright.payload.modules import chains
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def build(
    stages: Sequence[MatmulSpec],
    name: str,
    target: Target,
    *,
    threads: int = 1,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """Compiles a function `name` that computes a chain of products; see `payload.modules.chains`. `wanted` is as for `modules.build`.

    A user's list of passes runs in a child process.

    Raises:
        SpecError: The stages make no chain.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed.
    """
    chain_check.check(stages)
    if child.is_needed(None):
        from tilewright.emit import isolated

        return isolated.build_chain(tuple(stages), name, target, threads, **wanted)
    return compiled(stages, name, target, threads=threads, **wanted)


def compiled(
    stages: Sequence[MatmulSpec],
    name: str,
    target: Target,
    *,
    threads: int,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """As `build`, in this process."""
    source = partial(_chain, stages, name)
    return Builder(source, target, threads, Wanted(**wanted), lambda _: name, title=name).build()


def _chain(stages: Sequence[MatmulSpec], name: str, context: ir.Context, specs: list[MatmulSpec]) -> list[FunctionPart]:
    """The function of a chain."""
    signature, module = chains.build(stages, name, context)
    specs += stages
    return [FunctionPart(module, signature)]
