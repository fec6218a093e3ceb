# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors are one line, keep their parts, and survive pickling."""

import copy
import pickle
from pathlib import Path

import pytest
from tilewright.errors import (
    LoweringError,
    OperandError,
    ScheduleError,
    SpecError,
    TargetError,
    TilewrightError,
)

ALL = (TilewrightError, SpecError, TargetError, OperandError, ScheduleError, LoweringError)


@pytest.mark.parametrize("cls", ALL)
def test_every_error_is_a_tilewright_error_and_every_part_is_optional(cls):
    error = cls()
    assert isinstance(error, TilewrightError)
    assert str(error) == ""
    assert (error.what, error.where, error.expected, error.remedy) == ("", None, None, None)


@pytest.mark.parametrize("cls", ALL)
def test_parts_in_order(cls):
    error = cls("M is -1", where="MatmulSpec", expected="an int >= 0", remedy="Pass the number of rows of A")
    assert str(error) == "MatmulSpec: M is -1; expected an int >= 0. Pass the number of rows of A"
    assert str(cls("M is -1", expected="an int >= 0")) == "M is -1; expected an int >= 0"
    assert str(cls("no such target.", remedy="Try x86-64")) == "no such target. Try x86-64"


def test_message_is_one_line_and_the_part_is_kept_as_given():
    error = LoweringError("error: broken\n  note: see here\n", stage="llvm")
    assert str(error) == "stage llvm: error: broken note: see here"
    assert error.what == "error: broken\n  note: see here\n"


def test_operand_error_names_the_operand():
    assert str(OperandError("has shape (2, 3)", operand="b", expected="(3, 4)")) == (
        "operand b: has shape (2, 3); expected (3, 4)"
    )
    assert str(OperandError("x", operand="b", where="call")) == "call: x"


def test_schedule_error_names_file_line_and_ops():
    error = ScheduleError(
        "tiles K in parallel",
        file="my_schedule.py",
        line=12,
        transform_op="transform.structured.tile_using_forall",
        payload_op="linalg.matmul",
        remedy="Tile K with tile_using_for",
    )
    assert str(error) == (
        "my_schedule.py:12: tiles K in parallel (transform op transform.structured.tile_using_forall, "
        "payload op linalg.matmul). Tile K with tile_using_for"
    )
    assert str(ScheduleError("x", file=Path("a.mlir"))) == "a.mlir: x"


def test_lowering_error_names_stage_and_reproducer():
    error = LoweringError("crashed", stage="bufferized", reproducer=Path("r.mlir"))
    assert str(error) == "stage bufferized: crashed (reproducer: r.mlir)"


@pytest.mark.parametrize(
    "error",
    [
        SpecError("a", where="b", expected="c", remedy="d"),
        OperandError("a", operand="out", expected="c"),
        ScheduleError("a", file="f.py", line=3, transform_op="t", payload_op="p", remedy="d"),
        LoweringError("a", stage="llvm", reproducer=Path("r.mlir")),
    ],
)
@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_cross_process_borders(error, clone):
    twin = clone(error)
    assert type(twin) is type(error)
    assert vars(twin) == vars(error)
    assert str(twin) == str(error)
