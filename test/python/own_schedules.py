# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Users' schedules for tests, and the errors of compiling under them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tilewright as tw

SPEC = tw.MatmulSpec(16, 32, 8)
MATCH = '%m = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op'
TILED = ": (!transform.any_op) -> (!transform.any_op, !transform.any_op)"


def written(path: Path, *ops: str) -> Path:
    """A file with a schedule of these transform ops, the first of them on line 3."""
    lines = [
        "module attributes {transform.with_named_sequence} {",
        "transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {",
        *ops,
        "transform.yield } }",
    ]
    path.write_text("\n".join(lines))
    return path


def replaced_child(monkeypatch: pytest.MonkeyPatch, python: Path, program: str, stage: str = "bufferized") -> None:
    """Puts an interpreter that says that a stage starts, and then runs `program`, in the place of children's."""
    python.write_text(
        f"#!{sys.executable}\nimport os, signal, sys, time\nfrom multiprocessing.connection import Connection\n"
        f'parent = Connection(int(sys.argv[-1]))\nparent.send_bytes(b\'{{"told": {{"stage": "{stage}"}}}}\')\n{program}\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def failure(kind: type[tw.TilewrightError], schedule, spec: tw.MatmulSpec = SPEC) -> tw.TilewrightError:
    """The error of compiling `spec` under `schedule`: of exactly this kind, and on one line."""
    with pytest.raises(tw.TilewrightError) as caught:
        tw.compile(spec, schedule=schedule, cache=False)
    error = caught.value
    assert type(error) is kind, error
    assert "\n" not in str(error)
    assert error.what
    return error


def schedule_failure(schedule, spec: tw.MatmulSpec = SPEC) -> tw.ScheduleError:
    error = failure(tw.ScheduleError, schedule, spec)
    assert isinstance(error, tw.ScheduleError)
    return error
