# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of a whole module of linalg ops, or of a chain of products, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright import targets
from tilewright.emit import isolated_modules
from tilewright.emit.built import Built
from tilewright.errors import SpecError, warn_slow
from tilewright.payload import chain_check
from tilewright.payload.signature import Signature
from tilewright.runtime import runners
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.compile_functions import MadeFunctions
from tilewright.runtime.linkable import Linkable, of_functions
from tilewright.runtime.module import Module
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

FILENAME = "module"
"""What errors call a text that came from no file."""
CHAIN = "chain"
"""The name of the function of a chain."""


def compile_module(
    text: str,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    *,
    filename: str = FILENAME,
    plain: bool = False,
    cache: bool = True,
) -> Module:
    """Compiles the functions of an MLIR module: linalg ops on tensors or memrefs, of static extents.

    Each matrix product among them, whatever op says it, is compiled with what is done to its sums as `compile` compiles a spec;
    what is left is fused where it is elementwise, and vectorized. MLIR runs in a child process.

    Args:
        text: The module, or its functions alone.
        target: "host", a row's name, or a Target. Where this machine cannot run its code, calls raise `NotRunnableError`; all else, such
            as `Module.write`, is as ever.
        threads: Most threads that a product uses.
        filename: What errors call the text: FILENAME:LINE:COLUMN.
        plain: Compile each op to loops over elements, by itself: slow, and there to be compared with.
        cache: Whether the disk cache is read and written.

    Raises:
        SpecError: The text is not valid MLIR, or holds what is not supported; the error names the op and its place. Or `threads`
            is no int from 1 to 1024.
        TargetError: The target is unknown.
        LoweringError: A stage failed, or MLIR crashed.
    """
    start = time.perf_counter()
    if not isinstance(text, str):
        raise SpecError(f"the module is a {type(text).__name__}", where="compile_module", expected="its text")
    row = targets.resolve(target)
    check(threads, "compile_module")
    make = partial(build_module, text, filename, row, threads, plain=plain)
    what = Compilation(kind="module", problem=text, target=row, threads=threads, plain=plain)
    return _module(what, row, filename, make, cache=cache, start=start)


def compile_chain(
    stages: Sequence[MatmulSpec], target: str | Target | GpuTarget = "host", threads: int = 1, *, cache: bool = True
) -> Module:
    """Compiles a chain of products, the result of each of which is the A of the next: an MLP, or A·B·C.

    The module's only function takes A, and for each stage its B and its further operands; those of stage 2 are called "b2" and so
    on. Two products that follow each other are computed some rows at a time where that pays: where what is between them does
    not fit L2, and the weights of both do. A stage with `b_packed` takes its B as ``module.pack(name, b)`` packed it.

    Args:
        stages: A spec for each product: two or more, with static extents, beta 0, and no batch.
        target: As for `compile_module`.
        threads: Most threads that a product uses.
        cache: Whether the disk cache is read and written.

    Raises:
        SpecError: The stages make no chain, or `threads` is no int from 1 to 1024.
        TargetError: The target is unknown.
        LoweringError: A stage of the compilation failed.
    """
    start = time.perf_counter()
    stages = tuple(stages)
    chain_check.check(stages)
    row = targets.resolve(target)
    check(threads, "compile_chain")

    def make(**wanted: Any) -> Built:  # noqa: ANN401 - fields of Wanted
        from tilewright.emit import chain

        return chain.build(stages, CHAIN, row, threads=threads, **wanted)

    what = Compilation(kind="chain", problem=stages, target=row, threads=threads)
    return _module(what, row, CHAIN, make, cache=cache, start=start)


def _module(
    what: Compilation, target: Target, filename: str, make: Callable[..., Built], *, cache: bool, start: float
) -> Module:
    """The module that `what` decides, which errors call `filename`, from the disk cache or made."""
    who = runners.of(target).sharing(target, what.threads)
    made, about = MadeFunctions(
        what,
        target,
        who,
        make,
        schedule="modules",
        sizes=lambda signatures: {each.name: each.products for each in signatures},
        cache=cache,
        start=start,
    ).linked()
    if about.metadata.cached:
        _warn([each.signature for each in made.values()], filename)
    module = Module(made, about)
    module.can_be_compiled_again(make)
    return module


def build_module(
    text: str,
    filename: str,
    target: Target,
    threads: int,
    *,
    plain: bool = False,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """Compiles a module for any target. `plain` is as for `compile_module`, `wanted` as for `emit.modules.build`.

    Raises:
        SpecError: The text is not valid MLIR, or holds what is not supported.
        LoweringError: A stage failed, or MLIR crashed.
    """
    built = isolated_modules.build(text, filename, target, threads=threads, plain=plain, **wanted)
    _warn(built.functions, filename)
    return built


def linkable(text: str, filename: str, target: Target, threads: int, *, plain: bool = False) -> Linkable:
    """How a module is made as a file."""
    make = partial(build_module, text, filename, target, threads, plain=plain)
    return of_functions(target, threads, make)


def _warn(functions: Sequence[Signature], filename: str) -> None:
    """Says which ops are slow."""
    for op in (each for function in functions for each in function.slow):
        warn_slow(f"{filename}:{op} is computed element by element: no vectors are made of it")
