# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Users' schedules for operators: files and functions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules.packed import packed
from tilewright.schedules.streamed import streamed
from tilewright.schedules.unpacked import unpacked

SPEC = tw.Conv2dSpec(1, 9, 11, 16, 24, 3, 3, padding=1, epilogue=(tw.bias("n"),))


def is_right(kernel: Any) -> bool:
    """Whether a call of a kernel for `SPEC` gives the right numbers."""
    rng = np.random.default_rng(0)
    x, w, bias = (rng.uniform(-1, 1, each.shape).astype(np.float32) for each in SPEC.operands)
    difference = np.abs(kernel(x, w, bias) - tw.reference(SPEC, x, w, bias))
    return bool((difference <= tw.error_bound(SPEC, x, w, bias)).all())


def test_a_printed_schedule_is_given_back_and_may_be_edited(tmp_path):
    own = tw.compile(SPEC, parameters={"mr": 6})
    file = tmp_path / "schedule.mlir"
    file.write_text(own.asm["schedule"])
    given = tw.compile(SPEC, schedule=file)
    assert given.asm["asm"] == own.asm["asm"]
    assert given.metadata.schedule == str(file)
    edited = own.asm["schedule"].replace("pad_to_multiple_of [6,", "pad_to_multiple_of [3,")
    assert edited != own.asm["schedule"]
    file.write_text(edited.replace("tile_sizes [6, ", "tile_sizes [3, "))
    other = tw.compile(SPEC, schedule=file)
    assert other.asm["asm"] != own.asm["asm"]
    assert is_right(given)
    assert is_right(other)


def test_a_function_schedules_the_product():
    def narrow(spec: tw.MatmulSpec, target: tw.Target, sizes: Any) -> ir.Module:
        assert (spec.m, spec.n, spec.k) == (99, 24, 144)
        return packed(spec, target, sizes)

    kernel = tw.compile(SPEC, schedule=narrow)
    assert "narrow" in kernel.metadata.schedule
    assert is_right(kernel)


def test_a_schedule_that_reads_patches_one_by_one_is_refused():
    assert is_right(tw.compile(SPEC, schedule=unpacked))
    with pytest.raises(tw.ScheduleError, match=r"memref\.load reads the matrix of patches.*Pack the operand"):
        tw.compile(SPEC, schedule=streamed)


def broken(spec: tw.MatmulSpec, target: tw.Target, sizes: Any) -> ir.Module:
    raise ZeroDivisionError


def test_what_is_no_schedule_is_refused(tmp_path):
    with pytest.raises(tw.ScheduleError, match="a schedule called 'packed' for conv2d"):
        tw.compile(SPEC, schedule="packed")
    file = tmp_path / "schedule.mlir"
    file.write_text("module {}")
    with pytest.raises(tw.ScheduleError, match="no @__transform_main"):
        tw.compile(SPEC, schedule=file)
    with pytest.raises(tw.ScheduleError, match=r"a \.mlir schedule takes no sizes"):
        tw.compile(SPEC, schedule=file, parameters={"mr": 3})
    with pytest.raises(tw.ScheduleError, match=r"ZeroDivisionError"):
        tw.compile(SPEC, schedule=broken)
