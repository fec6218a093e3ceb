# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the transform op at which a schedule fails, where MLIR's message does not say it."""

from __future__ import annotations

from tilewright.build.usedef import body
from tilewright.lowering.diagnostics import collect
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright

MAIN = "__transform_main"
"""Name of the sequence of a schedule that is run."""


def main_sequence(schedule: ir.Operation) -> ir.Operation | None:
    """The named sequence of a transform module that is run; None when it has none."""
    for op in body(schedule).operations:
        named = op.name == "transform.named_sequence" and "sym_name" in op.attributes
        if named and ir.StringAttr(op.attributes["sym_name"]).value == MAIN:
            return op.operation
    return None


def find(payload: ir.Operation, schedule: ir.Operation) -> ir.Operation | None:
    """The first op of the main sequence of `schedule` with which it fails on `payload`, or makes a race.

    It is found by running ever shorter or longer beginnings of the sequence on copies. An op within another one, as in
    ``transform.foreach``, is not told apart from it.

    Args:
        payload: The payload as it was before the schedule was run; it is not changed.
        schedule: A transform module that fails on it, not changed either.

    Returns:
        An op of `schedule`; None when it does not fail.
    """
    main = main_sequence(schedule)
    if main is None:
        return None
    ops = list(body(main).operations)[:-1]
    # The first `sound` ops succeed, the first `failing` fail.
    sound, failing = 0, len(ops)
    if not _fails(payload, schedule, failing):
        return None
    while failing - sound > 1:
        middle = (sound + failing) // 2
        if _fails(payload, schedule, middle):
            failing = middle
        else:
            sound = middle
    return ops[failing - 1].operation


def _fails(payload: ir.Operation, schedule: ir.Operation, count: int) -> bool:
    """Whether the first `count` ops of the main sequence of `schedule` fail on a copy of `payload`."""
    trial = schedule.clone().operation
    main = main_sequence(trial)
    assert main is not None, "the copy has what the original has"
    for op in reversed(list(body(main).operations)[count:-1]):
        op.operation.erase()
    with collect(payload.context) as collected:
        succeeded = _tilewright.apply_named_sequence(payload.clone().operation, main, trial)
    return not succeeded or collected.race is not None
