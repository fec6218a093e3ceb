# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Users' schedules for operators: files and functions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.cpu.packed import packed
from tilewright.schedules.cpu.streamed import streamed
from tilewright.schedules.cpu.unpacked import unpacked
from tilewright.schedules.decisions import Depthwise

SPEC = tw.Conv2dSpec(1, 9, 11, 16, 24, 3, 3, padding=1, epilogue=(tw.bias("n"),))


CONVOLUTION = "linalg.depthwise_conv_2d_nhwc_hwc"
DEPTHWISE = tw.Conv2dSpec(
    2, 9, 11, 20, 20, 3, 5, padding=((1, 0), (2, 1)), groups=20, epilogue=(tw.bias("n"), tw.residual())
)


def is_right(kernel: Any, spec: tw.Conv2dSpec = SPEC) -> bool:
    """Whether a call of a kernel gives the right numbers."""
    rng = np.random.default_rng(0)
    operands = [rng.uniform(-1, 1, each.shape).astype(np.float32) for each in spec.operands]
    difference = np.abs(kernel(*operands) - tw.reference(spec, *operands))
    return bool((difference <= tw.error_bound(spec, *operands)).all())


def test_a_printed_schedule_is_given_back_and_may_be_edited(tmp_path):
    own = tw.compile(SPEC, parameters={"mr": 6})
    file = tmp_path / "schedule.mlir"
    file.write_text(own.asm["schedule"])
    given = tw.compile(SPEC, schedule=file)
    assert given.asm["asm"] == own.asm["asm"]
    assert given.metadata.schedule == str(file)
    edited = own.asm["schedule"].replace('knob<"mr"> = 6', 'knob<"mr"> = 3')
    assert edited != own.asm["schedule"]
    file.write_text(edited)
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


def undecided(spec: tw.Conv2dSpec, target: tw.Target, sizes: Depthwise) -> ir.Module:
    with steps.script() as script:
        steps.mark(steps.match(script.functions, CONVOLUTION), "some")
    return script.module


def deciding(matched: str, channels: int = 4) -> Any:
    """A schedule for a depthwise convolution that decides on the ops of a name."""

    def own(spec: tw.Conv2dSpec, target: tw.Target, sizes: Depthwise) -> ir.Module:
        assert sizes.channels == target.lanes(spec.product.acc_type)
        with steps.script() as script:
            steps.decide(steps.match(script.functions, matched), Depthwise(channels))
        return script.module

    return own


@pytest.mark.parametrize("channels", [1, 4, 7, 64])
def test_a_depthwise_convolution_has_vectors_of_as_many_channels_as_was_decided(channels):
    kernel = tw.compile(DEPTHWISE, schedule=deciding(CONVOLUTION, channels))
    assert f"vector<{min(channels, 20)}xf32>" in kernel.asm["bufferized"]
    assert is_right(kernel, DEPTHWISE)


@pytest.mark.parametrize("pixels", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(
    ("size", "filters", "how"),
    [
        ((1, 5, 23), (3, 3), {"padding": 1}),
        ((2, 4, 17), (5, 3), {"stride": (2, 2), "padding": ((3, 1), (2, 4))}),
        ((1, 9, 14), (3, 5), {"dilation": (3, 2), "padding": ((5, 4), (1, 6))}),
        ((1, 2, 3), (7, 7), {"padding": 3}),
        ((1, 3, 9), (1, 2), {"stride": (1, 3), "padding": ((4, 0), (0, 0))}),
    ],
    ids=str,
)
def test_pixels_of_a_row_that_are_computed_together(pixels, size, filters, how):
    (images, height, width), (rows, columns) = size, filters
    spec = tw.Conv2dSpec(
        images, height, width, 20, 20, rows, columns, groups=20, epilogue=(tw.bias("n"), tw.relu()), **how
    )
    assert is_right(tw.compile(spec, parameters={"pixels": pixels}), spec)


def test_what_does_not_fit_a_depthwise_convolution_is_refused():
    with pytest.raises(tw.ScheduleError, match=r"test_operator_schedules.*expected images.*linalg\.generic"):
        tw.compile(DEPTHWISE, schedule=deciding("linalg.generic"))
    with pytest.raises(tw.ScheduleError, match=r"0 ops carry a decision.*asm"):
        tw.compile(DEPTHWISE, schedule=undecided)
    with pytest.raises(tw.ScheduleError, match="channels: expected a number above zero, got 0"):
        tw.compile(DEPTHWISE, schedule=deciding(CONVOLUTION, 0))
    with pytest.raises(tw.ScheduleError, match=r"vectors of 100000 channels.*at most"):
        tw.compile(DEPTHWISE, schedule=deciding(CONVOLUTION, 100000))
    with pytest.raises(tw.ScheduleError, match="unknown parameter 'mr'; expected channels"):
        tw.compile(DEPTHWISE, parameters={"mr": 3})
    with pytest.raises(tw.ScheduleError, match=r"vectors of 64 channels for 1000 pixels.*expected at most"):
        tw.compile(DEPTHWISE, parameters={"channels": 64, "pixels": 1000})
    with pytest.raises(tw.ScheduleError, match=r"pixels=0; expected channels or pixels, an int above zero"):
        tw.compile(DEPTHWISE, parameters={"pixels": 0})
    assert is_right(tw.compile(DEPTHWISE, parameters={"channels": 3}), DEPTHWISE)


def test_a_tiled_depthwise_convolution_is_refused():
    def tiled(spec: tw.Conv2dSpec, target: tw.Target, sizes: Depthwise) -> ir.Module:
        with steps.script() as script:
            tile, _ = steps.tile(steps.match(script.functions, CONVOLUTION), [0, 1])
            steps.decide(tile, sizes)
        return script.module

    with pytest.raises(tw.ScheduleError, match="it is in a loop, or bufferized"):
        tw.compile(DEPTHWISE, schedule=tiled)
