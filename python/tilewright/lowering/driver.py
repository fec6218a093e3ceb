# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the lowering, one function a stage; each changes the module that it is given."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen import registry
from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import (
    annotations,
    culprit,
    entry,
    half_floats,
    instrument,
    math_functions,
    narrow,
    narrow_stores,
    own_buffers,
    parallel,
    pipelines,
    prefetch_panels,
    prepack,
    sizes,
    small_floats,
    stored,
    streaming,
    unroll,
    workspace,
)
from tilewright.lowering.diagnostics import DUMP, Collected, Message, collect, payload_op, source_line
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import func, linalg
from tilewright.mlir.passmanager import PassManager
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import ENTRY
from tilewright.payload.packing import PackedFormat
from tilewright.schedules import decisions
from tilewright.schedules import origin as origin_
from tilewright.schedules.blocking import held_bytes
from tilewright.schedules.decisions import Prefetch
from tilewright.schedules.threads import take_matrices
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

RUNTIME_ALLOCATOR = ("_mlir_memref_to_llvm_aligned_alloc", "_mlir_memref_to_llvm_free")
"""Scratch memory from the runtime that loads the kernel, which keeps it between calls."""
_ENDLESS = 2**62
"""Bytes of a cache that holds everything."""
LIBC_ALLOCATOR = ("aligned_alloc", "free")
"""Scratch memory from the C library, for objects that are linked elsewhere."""


def apply_schedule(payload: ir.Module, schedule: ir.Module, spec: MatmulSpec | OperatorSpec, *, name: str) -> None:
    """Applies `schedule` to the payload of `spec`, in place.

    Raises:
        ScheduleError: The schedule tiles an extent of zero, is not valid, has no ``@__transform_main``, does not fit, or
            makes a race. The error names the file and line of the schedule, the transform op and the payload op; `name`
            stands for the schedule when no line is known.
    """
    if spec.is_empty:
        _refuse_to_tile(schedule, spec, name)
    before = payload.operation.clone().operation
    try:
        _run_script(payload, schedule, name)
    except ScheduleError as e:
        op = None if e.transform_op else culprit.find(before, schedule.operation)
        if op is None:
            raise
        raise _error_at(op, e.what, name, e.remedy, e.payload_op) from None
    if str(before) == str(payload):
        _refuse_to_miss(before, schedule, name)


def _refuse_to_tile(schedule: ir.Module, spec: MatmulSpec | OperatorSpec, name: str) -> None:
    """MLIR crashes when it tiles an extent of zero."""
    tiling = _first(schedule, lambda op: op.name.startswith("transform.structured.tile"))
    if tiling is not None:
        raise _error_at(
            tiling,
            f"the schedule tiles {spec}, which has an extent of zero",
            name,
            remedy="Give no schedule for an empty product: there is nothing to schedule",
        )


def _refuse_to_miss(payload: ir.Operation, schedule: ir.Module, name: str) -> None:
    """To transform nothing is no error to MLIR. Raises `ScheduleError` when `schedule` looks for ops that are not there."""
    present: set[str] = set()

    def note(op: ir.Operation) -> ir.WalkResult:
        present.add(op.name)
        return ir.WalkResult.ADVANCE

    payload.walk(note, ir.WalkOrder.PRE_ORDER)

    def misses(op: ir.Operation) -> bool:
        if op.name != "transform.structured.match" or "ops" not in op.attributes:
            return False
        return present.isdisjoint(ir.StringAttr(wanted).value for wanted in ir.ArrayAttr(op.attributes["ops"]))

    miss = _first(schedule, misses)
    if miss is not None:
        what = f"the schedule changes nothing: it looks for {miss.attributes['ops']}"
        raise _error_at(miss, what, name, f"The payload has {', '.join(sorted(present - {payload.name}))}")


def _first(root: ir.Module, wanted: Callable[[ir.Operation], bool]) -> ir.Operation | None:
    """The first operation below `root` that is `wanted`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[0] if found else None


def _error_at(
    op: ir.Operation, what: str, name: str, remedy: str | None, payload_op: str | None = None
) -> ScheduleError:
    """An error of a schedule called `name` that is found at its transform op `op`."""
    file, line = source_line(str(op.location))
    where = None if file else name
    return ScheduleError(
        what, file=file, line=line, transform_op=op.name, payload_op=payload_op, where=where, remedy=remedy
    )


def located(error: ScheduleError, op: ir.Operation | None, name: str) -> ScheduleError:
    """An error of what a transform op of a schedule called `name` decided, at that op."""
    file, line = (None, None) if op is None else source_line(str(op.location))
    return ScheduleError(
        error.what,
        file=file,
        line=line,
        transform_op=op and op.name,
        payload_op=error.payload_op,
        where=None if file else name,
        expected=error.expected,
        remedy=error.remedy,
    )


def _run_script(payload: ir.Module, schedule: ir.Module, name: str) -> None:
    """Runs a transform module on `payload`. Raises `ScheduleError`."""
    main = culprit.main_sequence(schedule.operation)
    if main is None:
        raise ScheduleError(
            f"no @{culprit.MAIN}",
            where=name,
            expected="a transform.named_sequence of that name in the schedule's module",
        )
    with collect(payload.context) as collected:
        verify(schedule, name)
        refused = sizes.refusal(schedule.operation)
        if refused is not None:
            raise _error_at(refused.op, refused.what, name, refused.remedy)
        guarded = sizes.guarded(schedule.operation)
        main = culprit.main_sequence(guarded.module)
        assert main is not None, "a copy has what it is a copy of"
        succeeded = _tilewright.apply_named_sequence(payload.operation, main, guarded.module)
    if collected.race is not None:
        remedy = "Tile the reduction with tile_using_for, or with tile_reduction_using_forall"
        raise ScheduleError(collected.race.text, where=name, payload_op=payload_op(collected.race), remedy=remedy)
    if not succeeded:
        if not collected.errors:
            remedy = "If it is a tile_using_for, let its interchange name each dimension of the payload op once"
            raise ScheduleError("it failed, and MLIR gave no reason", where=name, remedy=remedy)
        refused = guarded.refusal(collected.errors[0].location, collected.errors[0].text)
        if refused is not None:
            raise _error_at(refused.op, refused.what, name, refused.remedy)
        raise _schedule_error(collected.errors[0], schedule, name)


def verify(schedule: ir.Module, name: str) -> None:
    """Raises `ScheduleError` where the ops of a schedule called `name` are not valid."""
    try:
        schedule.operation.verify()
    except ir.MLIRError as e:
        raise _schedule_error(Message.of(e.error_diagnostics[0]), schedule, name) from None


def _schedule_error(message: Message, schedule: ir.Module, name: str) -> ScheduleError:
    file, line = source_line(message.location)
    notes = [note for note, _ in message.notes if DUMP not in note]
    return ScheduleError(
        " ".join((message.text.strip(), *(f"({note})" for note in notes))),
        file=file,
        line=line,
        transform_op=_op_at(schedule, message.location),
        payload_op=payload_op(message),
        where=None if file else name,
        remedy="Put a transform.print before it to see what it is applied to",
    )


def _op_at(schedule: ir.Module, location: str) -> str | None:
    """The name of the transform op at `location`, as MLIR prints it."""
    op = _first(schedule, lambda op: str(op.location) == location)
    return None if op is None else op.name


def run_passes(module: ir.Module, pipeline: str, stage: str) -> None:
    """Runs a pass pipeline in place.

    Raises:
        LoweringError: A pass failed; the error names the stage.
    """
    with collect(module.context) as collected:
        try:
            passes = PassManager.parse(" ".join(pipeline.split()), module.context)
            instrument.prepare(passes, module.context, stage)
            passes.run(module.operation)
        except (ValueError, RuntimeError, ir.MLIRError) as e:
            raise _lowering_error(collected, stage, e) from None


def _lowering_error(collected: Collected, stage: str, failure: Exception) -> LoweringError:
    return LoweringError(collected.text() or str(failure), stage=stage)


def bufferize(
    module: ir.Module, spec: MatmulSpec, target: Target, threads: int = 1, origin: str = ""
) -> tuple[int, PackedFormat | None]:
    """Takes a scheduled module from tensors to memrefs.

    Args:
        module: The module, which is changed.
        spec: What it computes.
        target: For which target: its instructions decide the order of elements in packed panels.
        threads: Between how many threads its loops are shared at most.
        origin: The strategy whose schedule it is, word for word, as `schedules.origin` found; empty for others.

    Returns:
        The bytes of workspace that its function then needs, and the format of B when it comes packed.

    Raises:
        LoweringError: Bufferisation failed, or a copy of a whole tensor was needed.
        ScheduleError: B is to come packed, and the schedule does not pack it.
    """
    make_private(payload_function(module, "bufferized"))
    if take_matrices(spec, threads):
        own_buffers.mark(payload_function(module, "bufferized"))
    to_memrefs(module)
    run_passes(module, pipelines.DROP_RESULT, "bufferized")
    _return_through_c(payload_function(module, "bufferized"))
    registry.carry_out(
        payload_function(module, "bufferized"), spec, target, lambda passes: run_passes(module, passes, "bufferized")
    )
    run_passes(module, pipelines.TIDY_BUFFERS, "bufferized")
    stored.take_as_stored(payload_function(module, "bufferized"), spec)
    if narrow.of(spec):
        narrow.take_bytes(payload_function(module, "bufferized"), spec)
    if spec.widens:
        products = pipelines.group_products(spec, target.dots(spec.a_type.name, spec.b_type.name))
        run_own_script(module, products, "bufferized")
    packed = prepack.separate(module, spec, origin) if spec.b_packed else None
    function = payload_function(module, "bufferized")
    if packed is not None:
        prefetch_panels.place(function, target, packed.nbytes)
    parallel.share(function, threads)
    # A strip of C, and rows of B that start with a page, would be in the same sets of a cache.
    size = workspace.gather(function, start=workspace.STAGGER if _prefetched(function) == "all" else 0)
    if _first(module, lambda op: op.name == "memref.alloc") is not None:
        run_passes(module, pipelines.DEALLOCATE, "bufferized")
    return size, packed


def to_memrefs(module: ir.Module) -> None:
    """Bufferizes a scheduled module.

    Raises:
        LoweringError: It failed.
    """
    with module.context:
        script = pipelines.bufferize(empties=_first(module, lambda op: op.name == "tensor.empty") is not None)
        run_own_script(module, script, "bufferized")


def origin_of(schedule: ir.Module, module: ir.Module, spec: MatmulSpec, target: Target) -> str:
    """The strategy whose schedule a scheduled module had, where that matters: where B comes packed. Otherwise empty."""
    return origin_.of(schedule, payload_function(module, "scheduled").operation, spec, target) if spec.b_packed else ""


def make_private(function: func.FuncOp) -> None:
    """Lets `pipelines.DROP_RESULT` change the function's type: it leaves public functions alone."""
    with function.context:
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _return_through_c(function: func.FuncOp) -> None:
    """Copies a result that a schedule computed in a buffer of its own into C, and returns it no longer."""
    if not function.type.results:
        return
    with function.context, function.location:
        block = function.entry_block
        terminator = block.operations[len(block.operations) - 1]
        with ir.InsertionPoint(terminator):
            linalg.copy(terminator.operands[0], outs=[block.arguments[len(block.arguments) - 1]])
            func.ReturnOp([])
        terminator.operation.erase()
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(function.type.inputs, []))


def run_own_script(module: ir.Module, script: ir.Module, stage: str) -> None:
    """Runs a transform module of ours, as part of a stage.

    Raises:
        LoweringError: It failed.
    """
    try:
        _run_script(module, script, stage)
    except ScheduleError as e:
        raise LoweringError(e.what, stage=stage) from e


def to_llvm(
    module: ir.Module,
    spec: MatmulSpec,
    target: Target,
    workspace_bytes: int,
    allocator: tuple[str, str],
    symbol: str = ENTRY,
    packed: PackedFormat | None = None,
) -> ir.Module:
    """Takes a bufferised module to the LLVM dialect. Returns the module with the C entry added, under the name `symbol`.

    With `packed`, the format of a B that comes packed, the entries that pack it are added too.

    Raises:
        LoweringError: A pass failed.
    """
    lower_body(module, spec, target, packed)
    asks = allocator == LIBC_ALLOCATOR
    return entry.add_entry(module, spec, target, workspace_bytes, allocator, symbol, packed, asks_for_tiles=asks)


def lower_body(module: ir.Module, spec: MatmulSpec, target: Target, packed: PackedFormat | None = None) -> None:
    """Takes a bufferised module to the LLVM dialect, without an entry: what `to_llvm` puts one around.

    Raises:
        LoweringError: A pass failed.
    """
    operands = _prefetched(payload_function(module, "llvm"))
    prefetch = pipelines.PREFETCH.format(
        line=target.l1.line,
        l2=target.l2.bytes,
        last=_ENDLESS if operands == "none" else held_bytes(target),
        open="true" if operands == "all" else "false",
    )
    run_passes(module, prefetch, "llvm")
    dots = target.dots(spec.a_type.name, spec.b_type.name)
    run_own_script(module, pipelines.lower_vectors(target.lanes(spec.acc_type), dots), "llvm")
    if target.by_lane:
        run_own_script(module, unroll.script(unroll.mark(module)), "llvm")
    tiles = any(dot.kind == "amx" for dot in dots)
    for function in (ENTRY, prepack.PACK)[: 1 if packed is None else 2]:
        entry.prepare_body(payload_function(module, "llvm", function), target, tiles=tiles)
    _lower_half_floats(module, spec, target)
    if spec.has_entries:
        with module.context:
            left = math_functions.expand(module.operation, target)
        if left:
            run_passes(module, math_functions.F64, "llvm")
    run_passes(module, pipelines.TO_LLVM, "llvm")
    unroll.hand_on(module)
    streaming.define(module, spec, target)
    if spec.c_type.bits == 8 and "avx512bw" in target.features:
        with module.context:
            narrow_stores.protect(module.operation)
    if tiles:
        annotations.hand_on(module)
    if half_floats.of(spec):
        half_floats.move_as_integers(module.operation)


def _lower_half_floats(module: ir.Module, spec: MatmulSpec, target: Target) -> None:
    """Writes out the conversions of 8-bit floats, and those of 16-bit ones that `target` has no instructions for."""
    if small_floats.of(spec):
        with module.context:
            small_floats.expand(module.operation, target)
    if half_floats.of(spec):
        with module.context:
            half_floats.convert_by_f32(module.operation)
    missing = half_floats.to_expand(spec, target)
    if "f16" in missing:
        with module.context:
            half_floats.expand_f16(module.operation)
    if "bf16" in missing:
        run_passes(module, half_floats.EXPAND_BF16, "llvm")


def _prefetched(function: func.FuncOp) -> str:
    """Which operands a function prefetches: "none", "all", or "known" where its schedule has not decided."""
    decision = decisions.of(function.operation, decisions.PREFETCH)
    return decision.operands if isinstance(decision, Prefetch) else "known"


def payload_function(module: ir.Module, stage: str, name: str = ENTRY) -> func.FuncOp:
    """The function of that name.

    Raises:
        LoweringError: There is none.
    """
    for op in module.body:
        if isinstance(op, func.FuncOp) and op.name.value == name:
            return op
    raise LoweringError(f"no function @{ENTRY}", stage=stage, remedy="A schedule must keep the payload's function")
