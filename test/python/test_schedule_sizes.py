# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes in a user's schedule that mean nothing: each is refused with the transform op and its line, before MLIR uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tilewright as tw
from own_schedules import MATCH, SPEC, TILED, schedule_failure, written
from tilewright.lowering import run
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import structured
from tilewright.payload import matmul, text
from tilewright.schedules import steps

FOUR = ": (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)"
INSERTED = "insert_split_dimension = 2"
SIZES = "(!transform.any_op) -> !transform.param<i64>"
SAME = "(!transform.any_op) -> !transform.any_op"
GREEDY = 'matmul_inner_dims_order = [0, 1, 2] : (!transform.any_op) -> !transform.op<"linalg.generic">'
ZEROS = "{padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32]}"
PADDED = ZEROS.replace(
    "}", ", padding_dimensions = [0]} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, "
) + ("!transform.any_op)")
LOOP = (
    "%t, %l = transform.structured.tile_using_for %m tile_sizes [4, 0, 0] : "
    '(!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">)'
)


def scheduled(tmp_path: Path, *ops: str, spec: tw.MatmulSpec = SPEC) -> ir.Module:
    """The payload of `spec` after a schedule, in this process: nothing that ends MLIR gets as far as MLIR."""
    path = written(tmp_path / "own.mlir", *ops)
    context = ir.Context()
    with context, ir.Location.unknown():
        module = matmul.build(spec, context)
        run.apply_schedule(module, text.parse(path.read_text(), str(path), context), spec, name=str(path))
    return module


def refused(tmp_path: Path, *ops: str, spec: tw.MatmulSpec = SPEC) -> tw.ScheduleError:
    with pytest.raises(tw.ScheduleError) as caught:
        scheduled(tmp_path, *ops, spec=spec)
    assert caught.value.line == 2 + len(ops)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("op", "what"),
    [
        (f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [-1, 1, 0] {TILED}", "tile_sizes is -1"),
        (f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [0, 0, 0] {TILED}", "tiles nothing"),
        (f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [{2**40}, 1] {TILED}", f"tile_sizes is {2**40}"),
        (f"%t, %l = transform.structured.tile_using_forall %m num_threads [-1, 2] {TILED}", "num_threads is -1"),
        (f"%t, %l = transform.structured.tile_using_forall %m num_threads [{2**40}, 2] {TILED}", f"num_threads is {2**40}"),
        (f"%t, %l = transform.structured.tile_using_for %m tile_sizes [-1, 0, 0] {TILED}", "tile_sizes is -1"),
        (f"%t, %l = transform.structured.tile_using_for %m tile_sizes [{-(2**63)}, 0, 0] {TILED}", f"tile_sizes is {-(2**63)}"),
        (f"%t, %l = transform.structured.fuse %m tile_sizes [-4, 0, 0] {TILED}", "tile_sizes is -4"),
        (f"%f, %s, %c, %l = transform.structured.tile_reduction_using_for %m by tile_sizes = [0, 0, -2] {FOUR}", "tile_sizes is -2"),
        (f"%f, %s, %c, %l = transform.structured.tile_reduction_using_for %m by tile_sizes = [0, 0, 0] {FOUR}", "tiles nothing"),
        (f"%f, %s, %c, %l = transform.structured.tile_reduction_using_forall %m by num_threads = [0, 0, -2] {FOUR}", "num_threads is -2"),
        ("%s = transform.structured.split %m after -4 {dimension = 0} : !transform.any_op", "chunk_sizes is -4"),
        ("%s = transform.structured.split %m after 0 {dimension = 0} : !transform.any_op", "chunk_sizes is 0"),
        (f"%a, %b, %c, %d = transform.structured.split_reduction %m {{split_factor = -4, {INSERTED}}} {FOUR}", "split_factor is -4"),
        (f"%a, %b, %c = transform.structured.multitile_sizes %m {{dimension = 0, target_size = 0}} : {SIZES}", "target_size is 0"),
        (f"%a, %b, %c = transform.structured.multitile_sizes %m {{dimension = 0, target_size = -3}} : {SAME}", "target_size is -3"),
        (f"%a, %b, %c = transform.structured.multitile_sizes %m {{dimension = 0, target_size = 3, divisor = 0}} : {SIZES}", "divisor is 0"),
        (f"%a, %b = transform.structured.continuous_tile_sizes %m {{dimension = 0, target_size = 0}} : {SIZES}", "target_size is 0"),
        (f"%p, %q, %z = transform.structured.pad %m pad_to_multiple_of [0] {PADDED}", "pad_to_multiple_of is 0"),
        (f"%p, %q, %z = transform.structured.pad %m pad_to_multiple_of [{2**40}] {PADDED}", f"pad_to_multiple_of is {2**40}"),
        (f"%p, %q = transform.structured.pad_tiling_interface %m to padding_sizes [-4, 4, 4] {ZEROS} {TILED}", "padding_sizes is -4"),
        (f"%p = transform.structured.pack %m packed_sizes = [-4, 4, 4] : {SAME}", "packed_sizes is -4"),
        (f"%p = transform.structured.pack_greedily %m matmul_packed_sizes = [-4, 4, 4] {GREEDY}", "matmul_packed_sizes is -4"),
        ("transform.structured.vectorize %m vector_sizes [-16, 32, 8] : !transform.any_op", "vector_sizes is -16"),
    ],
)  # fmt: skip
def test_a_size_that_means_nothing(tmp_path, op, what):
    error = refused(tmp_path, MATCH, op)
    assert what in error.what
    assert error.transform_op in op
    assert Path(str(error.file)).name in ("-", "own.mlir")


@pytest.mark.parametrize(
    ("op", "what"),
    [
        (f"reduction_using_for %m reduction_dims = [9] by tile_sizes = [0, 0, 2] {FOUR}", "reduction_dims has 9, and the op has 3"),
        (f"reduction_using_forall %m reduction_dims = [9] by num_threads = [0, 0, 4] {FOUR}", "reduction_dims has 9, and the op has 3"),
        (f"reduction_using_for %m reduction_dims = [-1] by tile_sizes = [0, 0, 2] {FOUR}", "reduction_dims has -1"),
    ],
)  # fmt: skip
def test_a_dimension_that_is_not_there(tmp_path, op, what):
    assert what in refused(tmp_path, MATCH, f"%f, %s, %c, %l = transform.structured.tile_{op}").what


@pytest.mark.parametrize(
    ("op", "types"),
    [
        ("%a, %b, %c = transform.structured.multitile_sizes %m {dimension = 3, target_size = 3}", f": {SIZES}"),
        ("%a, %b = transform.structured.continuous_tile_sizes %m {dimension = 3, target_size = 3}", f": {SIZES}"),
        ("%p, %q, %z = transform.structured.pad %m pad_to_multiple_of [4]", PADDED.replace("[0]", "[3]")),
    ],
)
def test_a_dimension_after_the_last_one(tmp_path, op, types):
    assert "has 3, and the op has 3" in refused(tmp_path, MATCH, f"{op} {types}").what
    scheduled(tmp_path, MATCH, f"{op.replace('= 3,', '= 2,')} {types.replace('[3]', '[2]')}")


def test_no_interval_between_iterations(tmp_path):
    pipeline = (
        "%q = transform.loop.pipeline %l {iteration_interval = 0 : i64, read_latency = 5 : i64} : "
        '(!transform.op<"scf.for">) -> !transform.any_op'
    )
    assert "iteration_interval is 0" in refused(tmp_path, MATCH, LOOP, pipeline).what


def param(value: str, kind: str = "!transform.param<i64>") -> str:
    return f"%p = transform.param.constant {value} -> {kind}"


@pytest.mark.parametrize(
    ("op", "sizes", "value"),
    [
        ("tile_using_forall", "tile_sizes [%p, 1, 0]", -1),
        ("tile_using_forall", "num_threads [%p, 2]", -1),
        ("tile_using_forall", "num_threads [%p, 2]", 2**30),
        ("tile_using_for", "tile_sizes [%p, 0, 0]", -4),
        ("tile_using_for", "tile_sizes [%p, 0, 0]", 2**40),
        ("fuse", "tile_sizes [%p, 0, 0]", -4),
    ],
)
def test_a_parameter_that_brings_one(tmp_path, op, sizes, value):
    tile = f"%t, %l = transform.structured.{op} %m {sizes} : (!transform.any_op, !transform.param<i64>) -> "
    error = refused(tmp_path, MATCH, param(f"{value} : i64"), f"{tile} (!transform.any_op, !transform.any_op)")
    assert error.what == f"a size is {value}"
    assert error.transform_op == f"transform.structured.{op}"


@pytest.mark.parametrize("value", [-4, 0])
def test_a_parameter_that_splits_nothing_off(tmp_path, value):
    split = "%s = transform.structured.split %m after %p {dimension = 0, multiway} : !transform.any_op, !transform.param<i64>"
    assert refused(tmp_path, MATCH, param(f"{value} : i64"), split).what == f"a size is {value}"


@pytest.mark.parametrize("value", ['"x"', "4 : i32"])
def test_a_parameter_that_brings_no_size(tmp_path, value):
    # MLIR ends the process at these.
    tile = "%t, %l = transform.structured.tile_using_for %m tile_sizes [%p, 0, 0] : (!transform.any_op, !transform.any_param) -> "
    error = refused(
        tmp_path, MATCH, param(value, "!transform.any_param"), f"{tile} (!transform.any_op, !transform.any_op)"
    )
    assert "no integer" in error.what


def test_the_extent_that_only_a_call_tells_is_no_size(tmp_path):
    rows = "%d = transform.match.structured.dim %s[0] : (!transform.any_op) -> !transform.param<i64>"
    inside = (
        "%p = transform.match.structured %m : (!transform.any_op) -> !transform.param<i64> { ^bb0(%s: !transform.any_op): "
        f"{rows} transform.match.structured.yield %d : !transform.param<i64> }}"
    )
    tile = "%t, %l = transform.structured.tile_using_for %m tile_sizes [%p, 0, 0] : (!transform.any_op, !transform.param<i64>) -> "
    ops = (MATCH, inside, f"{tile} (!transform.any_op, !transform.any_op)")
    assert refused(tmp_path, *ops, spec=tw.MatmulSpec(None, 32, 8)).what == f"a size is {-(2**63)}"
    assert "scf.for" in str(scheduled(tmp_path, *ops))


@pytest.mark.parametrize("bits", [8, 32, 64])
def test_sizes_that_parameters_may_bring(tmp_path, bits):
    kind = f"!transform.param<i{bits}>"
    tile = f"%t, %l = transform.structured.tile_using_for %m tile_sizes [%p, 0, 0] : (!transform.any_op, {kind}) -> "
    module = scheduled(tmp_path, MATCH, param(f"4 : i{bits}", kind), f"{tile} (!transform.any_op, !transform.any_op)")
    assert "tensor<4x32xf32>" in str(module)


def test_a_parameter_of_several_sizes(tmp_path):
    sizes = f"%a, %b = transform.structured.continuous_tile_sizes %m {{dimension = 0, target_size = 9}} : {SIZES}"
    split = "%s = transform.structured.split %m after %b {dimension = 0, multiway} : !transform.any_op, !transform.param<i64>"
    assert str(scheduled(tmp_path, MATCH, sizes, split)).count("linalg.matmul") > 2


def test_the_line_of_a_file_and_of_a_function(tmp_path):
    path = written(
        tmp_path / "own.mlir",
        MATCH,
        f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [-1, 1, 0] {TILED}",
    )
    assert str(schedule_failure(path)).startswith(f"{path}:4: a size in tile_sizes is -1 (transform op ")

    def own(spec, target, sizes):
        with steps.script() as script:
            structured.TileUsingForallOp(steps.match(script.root, "linalg.matmul"), tile_sizes=[-1, 1, 0])  # this one
        return script.module

    error = schedule_failure(own)
    assert error.file == __file__
    assert Path(__file__).read_text().splitlines()[(error.line or 0) - 1].endswith("# this one")
