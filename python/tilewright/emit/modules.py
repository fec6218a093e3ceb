# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a module for a CPU, from its text to one object for all of its functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tilewright.emit.built import Built
from tilewright.emit.module_stages import Builder, FunctionPart, functions_of
from tilewright.emit.pipeline import Wanted
from tilewright.lowering import modules, run
from tilewright.mlir import ir
from tilewright.payload.modules import boundary, contractions, extents, groups, supported, tensors
from tilewright.payload.text import op_at, parse
from tilewright.schedules.operators import chains as model
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def build(
    text: str,
    filename: str,
    target: Target,
    *,
    threads: int = 1,
    plain: bool = False,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """Compiles the functions of a module for `target`, which this machine need not be able to run.

    Each matrix product, with what is elementwise before it is written, is compiled as `emit.stages` compiles a spec; what is
    left is fused and vectorized, and calls the products.

    Args:
        text: The module.
        filename: Its name, for errors.
        target: For which target.
        threads: Most threads that a product uses.
        plain: Whether each op becomes loops over elements, by itself: to be compared with.
        **wanted: Fields of `pipeline.Wanted`; only the C entry of a module's only function can have another name.

    Raises:
        SpecError: The text is no valid MLIR, or holds what is not supported; the error names the place.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed, or the last one is unknown.
    """
    source, name = partial(_read, text, filename, target, plain), partial(op_at, text=text)
    return Builder(source, target, threads, Wanted(**wanted), name, title=filename, plain=plain).build()


def _read(
    text: str, filename: str, target: Target, plain: bool, context: ir.Context, specs: list[MatmulSpec]
) -> list[FunctionPart]:
    """The functions of a module's text, split into products, which are added to `specs`, and the rest."""
    module = parse(text, filename, context)
    supported.check(module, filename)
    run.run_passes(module, modules.TIDY, "payload")
    supported.check_indices(module, filename)
    functions = functions_of(module)
    given = [boundary.given(function, text) for function in functions]
    written = [tensors.raise_to_tensors(function) for function in functions]
    modules.decompose(module)
    run.run_passes(module, modules.GENERIC, "payload")
    sizes = [extents.of(function.operation, filename) for function in functions_of(module)]
    found: list[list[contractions.Contraction]] = [[] for _ in given]
    if not plain:
        _fuse(module, found)
    made: list[FunctionPart] = []
    for function, products, names, outputs, of in zip(functions_of(module), found, given, written, sizes, strict=True):
        groups.split(function.operation, products, specs, partial(model.packs, target=target))
        signature = boundary.close(function, names, outputs, specs, of)
        alone = ir.Module.create()
        function.operation.clone(ip=ir.InsertionPoint(alone.body))
        made.append(FunctionPart(alone, signature))
    return made


def _fuse(module: ir.Module, found: Sequence[list[contractions.Contraction]]) -> None:
    """Sets the products of each function apart, and fuses what is elementwise between them."""

    def set_apart() -> bool:
        pairs = zip(functions_of(module), found, strict=True)
        return sum(contractions.set_apart(function.operation, products) for function, products in pairs) > 0

    set_apart()
    while True:
        for function in functions_of(module):
            contractions.guard(function.operation)
        run.run_passes(module, modules.FUSE, "payload")
        for function in functions_of(module):
            contractions.unguard(function.operation)
        if not set_apart():  # What reshapes were moved through is a product of more dimensions now.
            return
