# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Users' schedules for tests, and the errors of compiling under them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.emit import isolated

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


def replaced_child(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str, stage: str = "bufferized") -> None:
    """Puts a module that says that a stage starts, and then runs `program`, in the place of what children run; it is in `folder`."""
    name = f"child_{hashlib.sha256(f'{stage} {program}'.encode()).hexdigest()}"  # One that is imported stays.
    (folder / f"{name}.py").write_text(
        "import os, signal, sys, time\nfrom multiprocessing.connection import Connection\ndef main():\n"
        "    parent = Connection(int(sys.argv[1]))\n    parent.recv_bytes()\n"
        f'    parent.send_bytes(b\'{{"told": {{"stage": "{stage}"}}}}\')\n    {program or "return"}\n'
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(isolated, "_WORKER", name)


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
