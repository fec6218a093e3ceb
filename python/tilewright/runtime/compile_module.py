# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of a whole module of linalg ops, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from tilewright import _runtime, knobs, targets
from tilewright.emit import STAGES, isolated_modules, versions
from tilewright.emit.isolated_modules import Compiled
from tilewright.errors import SpecError, TargetError
from tilewright.payload.abi import TENSORS_SUFFIX
from tilewright.payload.signature import Signature
from tilewright.runtime.cache import KernelCache
from tilewright.runtime.compile import openmp_file
from tilewright.runtime.kernel import Metadata
from tilewright.runtime.module import Module
from tilewright.schedules.threads import check
from tilewright.targets import Target
from tilewright.version import VERSION

FILENAME = "module"
"""What errors call a text that came from no file."""


def compile_module(
    text: str, target: str | Target = "host", threads: int = 1, *, filename: str = FILENAME, cache: bool = True
) -> Module:
    """Compiles the functions of an MLIR module: linalg ops on tensors or memrefs, of static extents.

    Each matrix product among them, whatever op says it, is compiled with what is done to its sums as `compile` compiles a spec;
    what is left is fused where it is elementwise, and vectorised. MLIR runs in a child process.

    Args:
        text: The module, or its functions alone.
        target: "host", a row's name, or a Target, which this machine must be able to run.
        threads: Most threads that a product uses.
        filename: What errors call the text: FILENAME:LINE:COLUMN.
        cache: Whether the disk cache is read and written.

    Raises:
        SpecError: The text is not valid MLIR, or holds what is not supported; the error names the op and its place. Or `threads`
            is no int from 1 to 1024.
        TargetError: The target is unknown, or this machine cannot run it.
        LoweringError: A stage failed, or MLIR crashed.
    """
    start = time.perf_counter()
    if not isinstance(text, str):
        raise SpecError(f"the module is a {type(text).__name__}", where="compile_module", expected="its text")
    row = targets.resolve(target)
    if targets.runnable(row):
        raise TargetError(
            f"modules for {row.name} cannot be run here",
            where="compile_module",
            expected="a target that this machine runs by itself",
            remedy="`tilewright compile FILE.mlir` makes objects for any target",
        )
    if check(threads, "compile_module") > 1:
        openmp_file()  # its absence is better said before the work than after
    store = KernelCache.from_knobs(knobs.load()) if cache else None
    key = {"module": text, "target": versions.of_target(row), "threads": str(threads), "compiler": versions.fingerprint()}
    found = store.get(key) if store is not None else None
    if found is not None and versions.are_unchanged(found.header.get("libraries")):
        functions = tuple(Signature.from_json(each) for each in found.header["functions"])
        compiled = Compiled(functions, {}, {}, found.object, {})
    else:
        found = None
        compiled = build_module(text, filename, row, threads)
        if store is not None:
            about = {"functions": [each.as_json() for each in compiled.functions], "target": row.name}
            store.put(key, compiled.object, {**about, "libraries": compiled.libraries})
    names = [each.name for each in compiled.functions]
    code = _runtime.Code(compiled.object, names[0], [*names[1:], *(f"{name}{TENSORS_SUFFIX}" for name in names)])
    facts = Metadata(
        target=row.name,
        triple=row.triple,
        features=row.feature_string,
        schedule="modules",
        parameters={each.name: each.products for each in compiled.functions},
        threads=threads,
        seconds=compiled.seconds,
        compile_seconds=time.perf_counter() - start,
        object_bytes=len(compiled.object),
        cached=found is not None,
        version=VERSION,
        workspace_bytes=max(each.workspace for each in compiled.functions),
    )
    return Module(code, compiled.functions, row, facts, _texts(text, filename, row, threads, compiled.texts))


def build_module(
    text: str, filename: str, target: Target, threads: int, *, until: str = "obj", for_linking: bool = False
) -> Compiled:
    """Compiles a module for any target, up to the stage `until`.

    With `for_linking`, the object gets its scratch memory from the C library; otherwise from the runtime that loads it.

    Raises:
        SpecError: The text is not valid MLIR, or holds what is not supported.
        LoweringError: A stage failed, or MLIR crashed.
    """
    timeout = knobs.load().compile_timeout_s
    return isolated_modules.build(
        text, filename, target, threads=threads, until=until, for_linking=for_linking, timeout=timeout
    )


def _texts(
    text: str, filename: str, target: Target, threads: int, known: Mapping[str, str]
) -> dict[str, str | Callable[[], str]]:
    """The text of every stage; those that are not at hand are made when they are asked for."""

    def make(stage: str) -> str:
        # A module without products, and with nothing to vectorise, has no schedule.
        return build_module(text, filename, target, threads, until=stage).texts.get(stage, "")

    return {stage: known[stage] if stage in known else partial(make, stage) for stage in STAGES}
