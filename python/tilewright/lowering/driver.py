# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes a scheduled module from tensors to memrefs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tilewright.build.usedef import named, retype, terminator
from tilewright.lowering import operand_order, pipelines
from tilewright.lowering.memrefs import to_memrefs
from tilewright.lowering.passes import (
    dynamic_workspace,
    pack_together,
    parallel,
    prefetch_panels,
    prepack,
    privatization,
)
from tilewright.lowering.run import make_private, payload_function, run_passes
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, linalg
from tilewright.schedules import decisions
from tilewright.schedules.decisions import Prefetch
from tilewright.schedules.models.sizes import AHEAD, held_bytes
from tilewright.schedules.models.threads import take_matrices
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target

_ENDLESS = 2**62
"""Bytes of a cache that holds everything."""


class Codegen(Protocol):
    """What carries out decisions that upstream's passes do not: the registry of `tilewright.codegen`."""

    def carry_out(
        self, function: func.FuncOp, spec: MatmulSpec, target: Target, run_passes: Callable[[str], None], /
    ) -> None:
        """Replaces the product of a bufferized function that carries a decision."""
        ...

    def read_images(self, function: func.FuncOp, spec: MatmulSpec, target: Target, /) -> None:
        """Lets the product of a bufferized function read copies of images, if its schedule says so."""
        ...

    def define(self, module: ir.Module, spec: MatmulSpec, target: Target, /) -> None:
        """Defines the functions that a module in the LLVM dialect then calls."""
        ...


def bufferize(
    module: ir.Module,
    spec: MatmulSpec,
    target: Target,
    codegen: Codegen,
    threads: int = 1,
    origin: str = "",
    *,
    entered: bool = True,
) -> tuple[int, PackedFormat | None]:
    """Takes a scheduled module from tensors to memrefs.

    Args:
        module: The module, which is changed.
        spec: What it computes.
        target: For which target: its instructions decide the order of elements in packed panels.
        codegen: What carries out its decisions.
        threads: Between how many threads its loops are shared at most.
        origin: The strategy whose schedule it is, word for word, as `schedules.origin` found; empty for others.
        entered: Whether an entry calls it, which then gives scratch memory of dynamic size too.

    Returns:
        The bytes of workspace that its function then needs, and the format of B when it comes packed.

    Raises:
        LoweringError: Bufferization failed, or a copy of a whole tensor was needed.
        ScheduleError: B is to come packed, and the schedule does not pack it.
    """
    function = payload_function(module, "bufferized")
    make_private(function)
    privatization.mark(function, threads, entries=take_matrices(spec, threads))
    to_memrefs(module)
    run_passes(module, pipelines.DROP_RESULT, "bufferized")
    function = payload_function(module, "bufferized")
    _return_through_c(function)
    codegen.carry_out(function, spec, target, lambda passes: run_passes(module, passes, "bufferized"))
    run_passes(module, pipelines.TIDY_BUFFERS, "bufferized")
    operand_order.bring(module, payload_function(module, "bufferized"), spec, target)
    packed = prepack.separate(module, spec, origin) if spec.b_packed else None
    function = payload_function(module, "bufferized")
    codegen.read_images(function, spec, target)
    tiles = target.dot(*spec.multiplied).is_tile
    if _ahead(function):
        prefetch_panels.place(function, target, None if packed is None else packed.nbytes, tiles=tiles)
    parallel.share(function, threads, decisions.number(function.operation, "across", 0))
    pack_together.place(function, target)
    # A strip of C, and rows of B that start with a page, would be in the same sets of a cache.
    size = dynamic_workspace.gather_any(module, function, entered=entered, staggered=prefetched(function) == "all")
    if named(module.operation, "memref.alloc"):
        run_passes(module, pipelines.DEALLOCATE, "bufferized")
    return size, packed


def _return_through_c(function: func.FuncOp) -> None:
    """Copies a result that a schedule computed in a buffer of its own into C, and returns it no longer."""
    if not function.type.results:
        return
    with function.context, function.location:
        block = function.entry_block
        end = terminator(block)
        with ir.InsertionPoint(end):
            linalg.copy(end.operands[0], outs=[block.arguments[len(block.arguments) - 1]])
            func.ReturnOp([])
        end.erase()
        retype(function, [])


def prefetch(function: func.FuncOp, target: Target) -> str:
    """The passes that place prefetches of streams into a function."""
    operands, far = prefetched(function), _ahead(function)
    return pipelines.PREFETCH.format(
        line=target.l1.line,
        l2=target.l2.bytes if far else _ENDLESS,
        held=_held(function, target) if far and operands != "none" else _ENDLESS,
        ahead=far << 10,
        open="true" if far and operands == "all" else "false",
        rows=decisions.number(function.operation, "rows_ahead", 0),
    )


def _held(function: func.FuncOp, target: Target) -> int:
    """Bytes of an operand that the last-level cache still has when it is read again: others have a part of it.

    With f32 rows of A by 8 columns, in GFLOP/s, with and without prefetches (Zen 4, 32 MiB that others share): A of 4 MiB 105 and 109, 8
    MiB 107 and 106, 10 MiB 102 and 86, 16 MiB 102 and 81; u8 by i8, 14 MiB 413 and 267. By one column, 11 MiB 32 and 38, 23 MiB 1.05
    times as fast without, 46 MiB 0.96.
    """
    factors = [ir.MemRefType(each).shape for each in function.type.inputs[:2]]
    return held_bytes(target) // (2 if any(1 in shape[-2:] for shape in factors) else 4)


def _ahead(function: func.FuncOp) -> int:
    """KiB that a function prefetches streams ahead; 0: it prefetches no operand."""
    return decisions.number(function.operation, "ahead", AHEAD)


def prefetched(function: func.FuncOp) -> str:
    """Which operands a function prefetches: "none", "all", or "known" where its schedule has not decided."""
    decision = decisions.of(function.operation, decisions.PREFETCH)
    return decision.operands if isinstance(decision, Prefetch) else "known"
