# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A user's schedule that ends MLIR's process, or never ends, is an error with a reproducer, and not the end of this process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import tilewright as tw
from own_schedules import MATCH, TILED, failure, replaced_child, written
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import steps

# MLIR's packages are built without assertions.

ZERO = '%c = transform.structured.match ops{["arith.constant"]} attributes{value = 0 : index} in %root : '
CRASHES = {
    "no loop": f"%t, %l = transform.structured.tile_using_for %m tile_sizes [4, 0, 0] {TILED}\n"
    f"{ZERO} (!transform.any_op) -> !transform.any_op\n"
    "%u, %k = transform.structured.tile_using_forall %t tile_sizes [0, %c, 0] : (!transform.any_op, !transform.any_op) -> "
    "(!transform.any_op, !transform.any_op)",
}


def reproducer(error: tw.TilewrightError) -> Path:
    assert isinstance(error, tw.LoweringError)
    assert error.reproducer is not None
    assert str(error.reproducer) in str(error)
    assert error.remedy
    return error.reproducer


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_a_crash_is_an_error_with_a_reproducer(monkeypatch, tmp_path, crash):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    path = written(tmp_path / "own.mlir", MATCH, crash)
    error = failure(tw.LoweringError, path)
    assert "MLIR crashed with SIG" in error.what
    assert getattr(error, "stage", None) in ("schedule", "scheduled")
    folder = reproducer(error)
    assert (folder / "schedule.mlir").read_text() == path.read_text()
    assert (
        "--shape 16x32x8 --dtype f32 --layout nn --target host --schedule schedule.mlir"
        in (folder / "README.txt").read_text()
    )
    # The reproducer reproduces.
    assert "crashed" in failure(tw.LoweringError, folder / "schedule.mlir").what


@pytest.mark.parametrize(
    ("child", "what"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", f"crashed with {signal.SIGKILL.name}"),
        ("sys.exit(7)", "ended with status 7"),
        ("time.sleep(100)", "took more than 1 s"),
        ("", "ended with status 0"),
        ("parent.send_bytes(b'nonsense')", "gave no answer"),
    ],
)
def test_a_child_that_does_not_answer(monkeypatch, tmp_path, child, what):
    replaced_child(monkeypatch, tmp_path, child)
    schedule = written(tmp_path / "own.mlir", MATCH)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_COMPILE_TIMEOUT_S", "1" if "sleep" in child else "60")
    error = failure(tw.LoweringError, schedule)
    assert what in error.what
    assert getattr(error, "stage", None) == "bufferized"
    assert reproducer(error).is_dir()


def test_a_reproducer_of_a_function_is_the_schedule_that_it_made(monkeypatch, tmp_path):
    def own(spec, target, sizes):
        with steps.script() as script:
            tile, _ = steps.tile(steps.match(script.root, "linalg.matmul"), [4, 0, 0])
            zero = {"value": ir.IntegerAttr.get(ir.IndexType.get(), 0)}
            constants = ir.ArrayAttr.get([ir.StringAttr.get("arith.constant")])
            kind = transform.AnyOpType.get()
            size = structured.structured_match(kind, script.root, ops=constants, op_attrs=ir.DictAttr.get(zero))
            structured.TileUsingForallOp(tile, tile_sizes=[0, size, 0])
        return script.module

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    folder = reproducer(failure(tw.LoweringError, own))
    assert "tile_using_forall" in (folder / "schedule.mlir").read_text()
    assert "crashed" in failure(tw.LoweringError, folder / "schedule.mlir").what


def test_a_reproducer_of_an_operator_has_its_sizes(monkeypatch, tmp_path):
    replaced_child(monkeypatch, tmp_path, "sys.exit(7)")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_PASSES", "required")
    spec = tw.AttentionSpec(32, 32, 16)
    with pytest.raises(tw.LoweringError, match="ended with status 7") as caught:
        tw.compile(spec, "x86-64-v3", threads=2, cache=False)
    said = (reproducer(caught.value) / "README.txt").read_text()
    assert said.startswith("export TILEWRIGHT_PASSES=required\n")
    assert ", parameters={" in said
    assert ", threads=2" in said
