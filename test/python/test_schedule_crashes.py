# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A user's schedule that ends MLIR's process, or never ends, is an error with a reproducer, and not the end of this process."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import tilewright as tw
from own_schedules import MATCH, TILED, failure, written
from tilewright.emit import child as children
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import steps

# MLIR's packages are built without assertions.

CRASHES = {
    "threads": f"%t, %l = transform.structured.tile_using_forall %m num_threads [-1, 2] {TILED}",
    "padding": "%p, %q, %z = transform.structured.pad %m pad_to_multiple_of [0] {padding_values = [0.0 : f32, 0.0 : f32, "
    "0.0 : f32], padding_dimensions = [0]} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)",
}


def reproducer(error: tw.TilewrightError) -> Path:
    assert isinstance(error, tw.LoweringError)
    assert error.reproducer is not None
    assert str(error.reproducer) in str(error)
    assert error.remedy
    return error.reproducer


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_a_crash_is_an_error_with_a_reproducer(monkeypatch, tmp_path, crash):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = written(tmp_path / "own.mlir", MATCH, crash)
    error = failure(tw.LoweringError, path)
    assert "MLIR crashed with SIG" in error.what
    assert getattr(error, "stage", None) == "scheduled"
    folder = reproducer(error)
    assert (folder / "schedule.mlir").read_text() == path.read_text()
    assert "--shape 16x32x8 --dtype f32 --layout nn --schedule schedule.mlir" in (folder / "README.txt").read_text()
    # The reproducer reproduces.
    assert "crashed" in failure(tw.LoweringError, folder / "schedule.mlir").what


@pytest.mark.parametrize(
    ("child", "what"),
    [
        ("kill -KILL $$", f"crashed with {signal.SIGKILL.name}"),
        ("exit 7", "ended with status 7"),
        ("sleep 100", "took more than 0.3 s"),
        ("echo nonsense", "gave no answer"),
    ],
)
def test_a_child_that_does_not_answer(monkeypatch, tmp_path, child, what):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{children.STARTED}bufferized' >&2\nexec 3>&-\n{child}\n")
    python.chmod(0o755)
    schedule = written(tmp_path / "own.mlir", MATCH)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_COMPILE_TIMEOUT_S", "0.3" if "sleep" in child else "60")
    error = failure(tw.LoweringError, schedule)
    assert what in error.what
    assert getattr(error, "stage", None) == "bufferized"
    assert reproducer(error).is_dir()


def test_a_reproducer_of_a_function_is_the_schedule_that_it_made(monkeypatch, tmp_path):
    def own(spec, target, parameters):
        with steps.script() as script:
            tile = steps.match(script.root, "linalg.matmul")
            structured.TileUsingForallOp(tile, num_threads=[-1, 2])
        return script.module

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = reproducer(failure(tw.LoweringError, own))
    assert "num_threads [-1, 2]" in (folder / "schedule.mlir").read_text()
    assert "crashed" in failure(tw.LoweringError, folder / "schedule.mlir").what
