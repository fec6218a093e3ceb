# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs schedules, transform scripts and pass pipelines on a module; errors name the place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright import knobs
from tilewright.build.usedef import operations
from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import chosen_passes, culprit, instrument, pass_list, provenance, sizes, stepping
from tilewright.lowering.diagnostics import DUMP, Message, collect, payload_op, source_line
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import func
from tilewright.mlir.passmanager import PassManager
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import ENTRY
from tilewright.payload.text import parse
from tilewright.spec import MatmulSpec

PRINTED = "schedule.mlir"
"""The file that line tables name where they tell the lines of the printed schedule."""
_REMEDY = "See `tilewright trace` for what each op before it did, or put a transform.print before it"
_KINDS = (
    "An op of loops takes those that tiling returned beside the tile, or steps.match of scf.for; transform.structured.interchange takes a "
    "linalg.generic, which transform.structured.generalize makes of a named op"
)
_REMEDIES = {
    "Attempted to vectorize, but failed": "Tile by sizes that divide the extents, or pad or peel what is left (steps.pad, steps.peel): "
    "a tile of a dynamic size is no vector. vector_sizes must be at least as large as the tile",
    "Unsupported Op, cannot vectorize": "A loop is no vector: vectorize the tile, which tiling returns before its loops",
    "uses a handle": "An op consumes the handle that it is applied to: go on with the handles that it returned, or match again",
    "transform applied to the wrong op kind": _KINDS,
    "incorrect type of payload": _KINDS,
    "must be Transform IR handle to": "transform.cast makes a handle of that type of another one; steps.peel does so itself",
    "is consumed in the body but is not marked as such": "steps.script(consumes=True) makes a schedule that may consume its root",
    "failed to apply": "The op does not fit what it is applied to: `tilewright trace` shows what that is",
}
"""What to do about what MLIR says of a transform op, by a part of its text."""


def apply_schedule(payload: ir.Module, schedule: ir.Module, spec: MatmulSpec | OperatorSpec, *, name: str) -> None:
    """Applies `schedule` to the payload of `spec`, in place.

    Raises:
        ScheduleError: The schedule tiles an extent of zero, is not valid, has no ``@__transform_main``, does not fit, or
            makes a race. The error names the file and line of the schedule, the transform op and the payload op; `name`
            stands for the schedule when no line is known.
    """
    if spec.is_empty:
        _refuse_to_tile(schedule, spec, name)
    before, tables = payload.operation.clone().operation, knobs.load().debug_info
    if tables == "text":
        schedule, name = parse(str(schedule), PRINTED, payload.context), PRINTED
    try:
        if tables:
            with provenance.marking(payload) as mark:
                _run_script(payload, schedule, name, "scheduled", [mark])
        else:
            _run_script(payload, schedule, name, "scheduled")
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
    present = {op.name for op in operations(payload)}

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
    return next((op for op in operations(root.operation) if wanted(op)), None)


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


def _apply(payload: ir.Module, schedule: ir.Operation) -> bool:
    """Whether the main sequence of a transform module, which is a copy of one that has it, succeeds on a payload."""
    main = culprit.main_sequence(schedule)
    assert main is not None, "a copy has what it is a copy of"
    return _tilewright.apply_named_sequence(payload.operation, main, schedule)


def _run_script(
    payload: ir.Module, schedule: ir.Module, name: str, stage: str, told: Sequence[stepping.Told] = ()
) -> None:
    """Runs a transform module on `payload`, as part of a stage, and tells `told` of each op. Raises `ScheduleError`."""
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
        with instrument.group(stage, "transform ops", "mlir", lambda: instrument.printed(payload)) as group:
            listeners = [*told, *([] if group is None else [group.add])]
            if not listeners:
                succeeded = _apply(payload, guarded.module)
            else:
                telling, steps = stepping.instrumented(guarded.module, guarded.guards)
                with stepping.telling(payload.context, steps, name, listeners):
                    succeeded = _apply(payload, telling)
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
    return ScheduleError(
        f"{message.text.strip()}{_notes(message)}",
        file=file,
        line=line,
        transform_op=_op_at(schedule, message.location),
        payload_op=payload_op(message),
        where=None if file else name,
        remedy=next((remedy for said, remedy in _REMEDIES.items() if said in message.text), _REMEDY),
    )


def _notes(message: Message) -> str:
    """What MLIR adds to an error; of a handle that an op has consumed, which op that was."""
    consumed = next(
        (place for note, place in message.notes if note.startswith("invalidated by this transform op")), None
    )
    if consumed is not None:
        file, line = source_line(consumed)
        return f" ({Path(file).name}:{line})" if file else ""
    return "".join(f" ({note})" for note, _ in message.notes if DUMP not in note)


def _op_at(schedule: ir.Module, location: str) -> str | None:
    """The name of the transform op at `location`, as MLIR prints it."""
    op = _first(schedule, lambda op: str(op.location) == location)
    return None if op is None else op.name


def run_passes(module: ir.Module, pipeline: str, stage: str) -> None:
    """Runs a pass pipeline in place, or what a user has put in its place.

    The IR is verified after the last pass; after each, which is half of the time of a pipeline, where passes are watched or are a user's.

    Raises:
        LoweringError: A pass failed; the error names the stage.
    """
    with (
        collect(module.context) as collected,
        instrument.group(stage, "MLIR's passes", "mlir", lambda: instrument.printed(module)) as group,
    ):
        try:
            chosen = chosen_passes.of_mlir(pipeline, stage)
            for name, each in [("", chosen)] * bool(chosen) if group is None else pass_list.one_by_one(chosen):
                start = time.perf_counter()
                passes = PassManager.parse(pass_list.normal(each), module.context)
                passes.enable_verifier(chosen != pipeline)
                passes.run(module.operation)
                module.operation.verify()
                if group is not None:
                    group.add(name, time.perf_counter() - start)
        except (ValueError, RuntimeError, ir.MLIRError) as e:
            raise LoweringError(collected.text() or str(e), stage=stage) from None


def run_own_script(module: ir.Module, script: ir.Module, stage: str) -> None:
    """Runs a transform module of ours, as part of a stage.

    Raises:
        LoweringError: It failed.
    """
    try:
        _run_script(module, script, stage, stage)
    except ScheduleError as e:
        raise LoweringError(e.what, stage=stage) from e


def make_private(function: func.FuncOp) -> None:
    """Lets `pipelines.DROP_RESULT` change the function's type: it leaves public functions alone."""
    with function.context:
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def payload_function(module: ir.Module, stage: str, name: str = ENTRY) -> func.FuncOp:
    """The function of that name.

    Raises:
        LoweringError: There is none.
    """
    for op in module.body:
        if isinstance(op, func.FuncOp) and op.name.value == name:
            return op
    raise LoweringError(f"no function @{ENTRY}", stage=stage, remedy="A schedule must keep the payload's function")
