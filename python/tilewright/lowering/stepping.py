# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Has each transform op of a schedule tell when it has run and what its handles hold.

Upstream's ``transform.debug`` ops tell it, as remarks; MLIR calls the handler of a remark at once, so that the payload can be read there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.build.usedef import operations
from tilewright.lowering.diagnostics import DUMP, source_line
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import debug

_STEP, _HANDLE = "tilewright.step", "tilewright.handle"
"""How the remarks start; the number of the op or of its result follows. Those of an op's results come before its own."""
_BLOCKS = (
    *("transform.named_sequence", "transform.sequence", "transform.foreach", "transform.alternatives"),
    "transform.tune.alternatives",
)
"""The ops whose blocks hold transform ops that run one after the other; those of the others say what is matched or applied."""
_LONGEST = 120
"""Characters of a payload op that are kept of what a handle holds."""

Told = Callable[[str, float, str, Sequence[Sequence[str]]], None]
"""Gets an op's name, its seconds, its file and line in the schedule, and for each of its results what that holds."""


def instrumented(schedule: ir.Operation, ignored: Collection[str]) -> tuple[ir.Operation, list[ir.Operation]]:
    """A copy of a transform module with the remarks, and the ops of the module that they are of, by number.

    Before: ``%0 = structured.match ...``. After::

        %0 = structured.match ...
        debug.emit_remark_at %0, "tilewright.handle 0"
        %n = param.constant 7; debug.emit_param_as_remark %n, "tilewright.step"

    Args:
        schedule: The module, which is not changed.
        ignored: The locations of ops that tell nothing, as MLIR prints them.
    """
    copy = schedule.clone().operation
    matchers = _matchers(schedule)
    steps: list[ir.Operation] = []
    number = transform.ParamType.get(ir.IntegerType.get_signless(64, schedule.context))
    for original, op in zip(list(operations(schedule)), list(operations(copy)), strict=True):
        if not _is_step(original, ignored, matchers):
            continue
        with ir.InsertionPoint.after(op), ir.Location.unknown(op.context):
            for index, result in enumerate(op.results):
                _tell_result(result, f"{_HANDLE} {index}")
            of_op = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(steps))
            told: Any = transform.ParamConstantOp(number, of_op)  # A value, which upstream's hint calls an attribute.
            debug.EmitParamAsRemarkOp(told, message=_STEP)
        steps.append(original)
    return copy, steps


def _matchers(schedule: ir.Operation) -> set[str]:
    """The names of the sequences that only match: nothing else may stand in them."""
    found = [op.attributes["matchers"] for op in operations(schedule) if op.name == "transform.foreach_match"]
    return {ir.FlatSymbolRefAttr(each).value for matchers in found for each in ir.ArrayAttr(matchers)}


def _is_step(op: ir.Operation, ignored: Collection[str], matchers: set[str]) -> bool:
    parent = op.parent
    if parent is None or parent.name not in _BLOCKS or op.name == "transform.yield" or str(op.location) in ignored:
        return False
    sequence = parent
    while sequence.name != "transform.named_sequence" and sequence.parent is not None:
        sequence = sequence.parent
    named = "sym_name" in sequence.attributes and ir.StringAttr(sequence.attributes["sym_name"]).value
    return named not in matchers


def _tell_result(result: ir.Value, message: str) -> None:
    """Builds the remark with what a result holds: payload ops, or parameters."""
    kind = str(result.type)
    if kind.startswith(("!transform.param<", "!transform.any_param")):
        parameter: Any = result
        debug.EmitParamAsRemarkOp(parameter, message=message)
    elif kind.startswith(("!transform.any_op", "!transform.op<")):
        debug.EmitRemarkAtOp(result, message)


@contextmanager
def telling(context: ir.Context, steps: Sequence[ir.Operation], name: str, told: Sequence[Told]) -> Iterator[None]:
    """Tells each of `told` of each op of the schedule called `name` that runs inside, as soon as it has run."""
    handler = context.attach_diagnostic_handler(_Listener(steps, name, told).hear)
    try:
        yield
    finally:
        handler.detach()


class _Listener:
    """Turns remarks into steps."""

    def __init__(self, steps: Sequence[ir.Operation], name: str, told: Sequence[Told]) -> None:
        self._steps, self._name, self._told = steps, name, told
        self._handles: dict[int, list[str]] = {}
        self._resumed, self._ended = time.perf_counter(), 0.0

    def hear(self, diagnostic: ir.Diagnostic) -> bool:
        """Whether a diagnostic is one of these remarks."""
        now, text = time.perf_counter(), diagnostic.message
        if not text.startswith((_STEP, _HANDLE)):
            return False
        self._ended = self._ended or now
        if text.startswith(_HANDLE):
            _, index, *value = text.split(maxsplit=2)
            notes = [note.message for note in diagnostic.notes if DUMP in note.message]
            held = value[0] if value else _first_line(notes[0]) if notes else ""
            self._handles.setdefault(int(index), []).append(held)
            return True
        op = self._steps[int(text.split()[1])]
        file, line = source_line(str(op.location))
        file = self._name if file == "-" else file  # What MLIR calls text without a file.
        handles = [self._handles.get(index, []) for index in range(len(op.results))]
        source, took = f"{file}:{line}" if file else "", self._ended - self._resumed
        for told in self._told:
            told(op.name.removeprefix("transform."), took, source, handles)
        self._handles, self._ended, self._resumed = {}, 0.0, time.perf_counter()
        return True


def _first_line(note: str) -> str:
    """The payload op that a note prints, by its first line."""
    line = re.sub(rf"^{DUMP}:", "", note).strip().splitlines()[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
