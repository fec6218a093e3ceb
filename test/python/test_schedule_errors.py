# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wrong schedules, of users who write MLIR or Python: each is an error with its line, and none ends this process."""

from __future__ import annotations

import re
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from own_schedules import MATCH, SPEC, TILED, schedule_failure, written
from tilewright.cli import main
from tilewright.errors import SlowScheduleWarning
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import make, steps

# What fails while it runs: the file and line, the transform op, the payload op, a remedy.


@pytest.mark.parametrize(
    ("ops", "line", "transform_op", "what"),
    [
        (
            [MATCH, f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [0, 0, 4] {TILED}"],
            4,
            "tile_using_forall",
            "not thread safe",
        ),
        (
            [
                MATCH,
                f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [4, 0, 0] {TILED}",
                f"%u, %k = transform.structured.tile_using_forall %t num_threads [0, 0, 2] {TILED}",
            ],
            5,
            "tile_using_forall",
            "not thread safe",
        ),
        (
            [
                MATCH,
                "%t, %l, %k = transform.structured.tile_using_for %m tile_sizes [4, 4] interchange = [1] : "
                "(!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)",
            ],
            4,
            "tile_using_for",
            "MLIR gave no reason",
        ),
        ([MATCH, "", "transform.structured.vectorize %m vector_sizes [4] : !transform.any_op"], 5, "vectorize", "vectorize, but failed"),
        ([MATCH, "%s = transform.structured.split %m after 4 {dimension = 9} : !transform.any_op"], 4, "split", "dimension 9"),
        (
            [
                MATCH,
                f"%t, %l = transform.structured.tile_using_for %m tile_sizes [4] {TILED}",
                f"%u, %k = transform.structured.tile_using_for %m tile_sizes [2] {TILED}",
            ],
            5,
            "tile_using_for",
            "invalidated",
        ),
    ],
    ids=["race", "second tiling races", "short interchange", "no vectors", "no such dimension", "used twice"],
)  # fmt: skip
def test_a_schedule_that_fails(tmp_path, ops, line, transform_op, what):
    path = written(tmp_path / "own.mlir", *ops)
    error = schedule_failure(path)
    assert (str(error.file), error.line) == (str(path), line)
    assert error.transform_op == f"transform.structured.{transform_op}"
    assert error.payload_op == ("linalg.matmul" if "gave no reason" not in what else None)
    assert what in error.what
    assert error.remedy
    assert str(error).startswith(f"{path}:{line}: ")


def test_a_schedule_that_does_not_match(tmp_path):
    nothing = MATCH.replace("matmul", "conv_2d")
    path = written(
        tmp_path / "own.mlir", nothing, f"%t, %l = transform.structured.tile_using_for %m tile_sizes [4] {TILED}"
    )
    # Transform ops do nothing to an empty handle, and MLIR takes that for success.
    error = schedule_failure(path)
    assert (str(error.file), error.line, error.transform_op) == (str(path), 3, "transform.structured.match")
    assert "linalg.conv_2d" in error.what
    assert "linalg.matmul" in str(error.remedy)


def test_a_schedule_that_changes_nothing_on_purpose(tmp_path):
    kernel = tw.compile(SPEC, schedule=written(tmp_path / "own.mlir", MATCH), cache=False)
    np.testing.assert_array_equal(kernel(np.ones((16, 8), "f4"), np.ones((8, 32), "f4")), 8)


@pytest.mark.parametrize("extents", [(0, 0, 4), (0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_tiling_an_extent_of_zero(tmp_path, extents):
    path = written(
        tmp_path / "own.mlir", MATCH, f"%t, %l = transform.structured.tile_using_forall %m tile_sizes [0, 3, 0] {TILED}"
    )
    error = schedule_failure(path, tw.MatmulSpec(*extents))
    assert (str(error.file), error.line, error.transform_op) == (str(path), 4, "transform.structured.tile_using_forall")
    assert "extent of zero" in error.what
    assert "no schedule" in str(error.remedy)


def test_columns_are_not_copied_where_their_number_is_open():
    error = schedule_failure("inner_product", tw.MatmulSpec(16, None, 8))
    assert "columns of B of any number" in error.what
    assert error.remedy


# What is no schedule.


@pytest.mark.parametrize(
    ("name", "text", "place", "what"),
    [
        ("own.mlir", "", "", "no @__transform_main"),
        ("own.mlir", "module {}", "", "no @__transform_main"),
        ("own.mlir", "module {\n  transform.nonsense\n}", ":2:3", "transform.nonsense"),
        ("own.mlir", "module {\n", ":1:9", "not valid MLIR"),
        ("own.mlir", "(" * 10**6, ":1:257", "256 nested brackets"),
        ("own.py", "", "", "no function schedule"),
        ("own.py", "schedule = 5", "", "no function schedule"),
        ("own.py", "\ndef schedule(:\n  pass", ":2", "SyntaxError"),
        ("own.py", "\n\nimport no_such_module", ":3", "No module named 'no_such_module'"),
        ("own.py", "raise RuntimeError('two\\nlines')", ":1", "RuntimeError"),
        ("own.py", "import sys\nsys.exit(3)", ":2", "SystemExit"),
        ("own.py", "x = 1\0", "", "null bytes"),
        ("own.py", "def schedule(spec, target, sizes):\n  pass", "", "returned NoneType"),
        ("own.py", "def schedule(spec, target, sizes):\n  return 'module {}'", "", "returned str"),
        ("own.py", "\ndef schedule():\n  pass", ":2", "TypeError"),
        ("own.py", "\ndef schedule(spec, target, sizes):\n\n  return 1 / 0", ":4", "ZeroDivisionError"),
        ("own.py", "\ndef schedule(spec, target, sizes):\n\n  raise SystemExit", ":4", "SystemExit"),
    ],
)  # fmt: skip
def test_no_schedule(tmp_path, name, text, place, what):
    path = tmp_path / name
    path.write_text(text)
    error = schedule_failure(path)
    assert str(error).startswith(f"{path}{place}: ")
    assert what in error.what


def test_our_lines_are_not_blamed(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from tilewright.schedules import steps\ndef schedule(*_):\n  with steps.script() as s:\n    steps.tile(s, 5)\n"
    )
    assert str(schedule_failure(path)).startswith(f"{path}:4: TypeError: ")


@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ("fast", "unknown strategy 'fast'"),
        ("", "unknown strategy"),
        (5, "schedule is a int"),
        ("missing.mlir", "missing.mlir: cannot read the schedule: No such file"),
        ("folder.py", "folder.py: cannot read the schedule: Is a directory"),
        ("latin.mlir", "latin.mlir: cannot read the schedule: it is no UTF-8 text"),
    ],
)
def test_an_unknown_schedule(monkeypatch, tmp_path, schedule, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "latin.mlir").write_bytes(b"// caf\xe9")
    error = schedule_failure(schedule)
    assert what in str(error)
    assert error.expected


# Functions.


def test_the_line_of_a_function_that_made_the_failing_op():
    def own(spec, target, sizes):
        with steps.script() as script:
            tile = steps.match(script.root, "linalg.matmul")
            structured.TileUsingForallOp(tile, tile_sizes=[0, 0, 4])  # this one
        return script.module

    error = schedule_failure(own)
    lines = Path(__file__).read_text().splitlines()
    assert error.file == __file__
    assert lines[(error.line or 0) - 1].endswith("# this one")
    assert error.transform_op == "transform.structured.tile_using_forall"


def test_a_function_whose_module_does_not_verify():
    def own(spec, target, sizes):
        with steps.script() as script:
            steps.vectorize(script.root)  # consumes the root, which is given to be read only
        return script.module

    error = schedule_failure(own)
    assert error.file == __file__
    assert "consumed" in error.what


def test_a_function_of_a_file_uses_what_the_file_defines(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        textwrap.dedent("""
            from tilewright.schedules import steps
            NAME = "linalg.matmul"
            def found(script): return steps.match(script.root, NAME)
            def schedule(spec, target, sizes):
                with steps.script() as script:
                    tile, _ = steps.tile(found(script), [sizes.mr, 0, 0])
                return script.module
        """)
    )
    kernel = tw.compile(SPEC, schedule=path, parameters={"mr": 5}, cache=False)
    assert "step %c5" in kernel.asm["scheduled"]
    np.testing.assert_array_equal(kernel(np.ones((16, 8), "f4"), np.ones((8, 32), "f4")), 8)


def test_what_a_schedule_prints_is_shown(tmp_path, capfd):
    path = written(tmp_path / "own.mlir", MATCH, 'transform.print %m {name = "the product"} : !transform.any_op')
    tw.compile(SPEC, schedule=path, cache=False)
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.startswith("[[[ IR printer: the product ]]]\n")
    assert "linalg.matmul ins(" in output.err


@pytest.mark.parametrize(
    ("target", "types", "sizes", "message"),
    [
        (
            "x86-64-v4",
            "f32",
            {"nr": 7},
            r"nr is 7: packed .* steps of 16, .*; expected a multiple of 16\. Leave nr to the model",
        ),
        ("neoverse-n2", "i8", {"mr": 3}, "mr is 3: .* expected a multiple of 2"),
        ("sapphirerapids", "bf16", {"mr": 2, "nr": 32}, "mr is 2: .* expected a multiple of 16"),
    ],
)
def test_sizes_that_no_instruction_fits_are_told(target, types, sizes, message):
    spec, row = tw.MatmulSpec.from_dtypes(64, 64, 64, types), tw.targets.get(target)
    with pytest.warns(SlowScheduleWarning, match=message):
        make.make(spec, row, "packed", sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make.make(spec, row, "packed", {"nr": 32})
        make.make(spec, row, "unpacked")


SPILLS = r"the hot loop accesses the stack \d+ times under packed, mr=\d+ nr=\d+: .* do not all fit the \d+ registers of \d+ bits"


def test_sizes_that_do_not_fit_the_registers_are_told_by_compile_each_time(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    host, spec = tw.targets.resolve("host"), tw.MatmulSpec(128, 128, 64)
    nr = 2 * host.lanes(spec.acc_type)
    sizes = {"mr": host.vector_registers, "nr": nr}
    for cached in (False, True):
        with pytest.warns(SlowScheduleWarning, match=SPILLS) as caught:
            assert tw.compile(spec, schedule="packed", parameters=sizes).metadata.cached is cached
        assert {each.filename for each in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.compile(spec, schedule="packed", parameters={"mr": 4, "nr": nr})


@pytest.mark.parametrize("verb", [("compile", "-o", "k.o"), ("explain", "-o", "d")])
def test_sizes_that_do_not_fit_the_registers_are_told_by_verbs(capsys, monkeypatch, tmp_path, verb):
    monkeypatch.chdir(tmp_path)
    what = ("--shape", "56x128x64", "--target", "x86-64-v4", "--schedule", "packed", "--set", "nr=64")
    assert main([verb[0], *what, "--set", "mr=14", *verb[1:]]) == 0
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "warning" in each]
    assert re.search(SPILLS, line)
    assert main([verb[0], *what, "--set", "mr=6", *verb[1:]]) == 0
    assert "warning" not in capsys.readouterr().err


def test_blocks_of_one_tile_instruction_are_refused():
    spec = tw.MatmulSpec(148, 190, 177, a="u8")
    with pytest.raises(tw.ScheduleError, match="kc is 64; expected more than the 64 of one tile instruction"):
        make.make(spec, tw.targets.get("sapphirerapids"), parameters={"kc": 64})
