# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile with kernels of ours, by a program that runs where `tilewright bench setup` has installed torch."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tilewright.bench import environments

HERE = Path(__file__).parent
PROGRAM = HERE / "on_torch_backend.py"
PACKAGE = HERE.parents[1] / "python"


@cache
def failures() -> dict[str, str]:
    """The tracebacks of the cases that failed, by name; and how many cases there were."""
    python = environments.python("torch")
    if python is None:
        pytest.skip("there is no environment with torch (make setup-frameworks installs it)")
    done = subprocess.run(
        [str(python), "-B", "-W", "ignore", str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 30
    return {row["case"]: row["failure"] for row in rows if row["failure"]}


def test_graphs_of_torch_compile() -> None:
    assert failures() == {}
