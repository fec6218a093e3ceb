# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of models through torch.compile with our backend: the short form of what `make check-outside` does with all of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tilewright.bench import environments

HERE = Path(__file__).parent
OPS = HERE.parents[1] / "python" / "tilewright" / "torch" / "libtilewright_torch.so"
FEW = {
    "conv2d_one_image float32": 1,
    "conv2d_pooled float32": 1,
    "in_place float32": 1,
    "views_of_a_result float32": 1,
    "lstm_cell float32": 2,
    "no_inner float32": 1,
    "broadcast_operand float32": 1,
    "attention_grouped bfloat16": 1,
    "training_loss float32": 3,
}
"""By name, how many kernels there are."""
PLANTED = """
import judged, torch
torch.manual_seed(0)
program = judged.Program(torch.mm, (torch.rand(5, 8), torch.rand(8, 4)), torch.float32)
wrong = (lambda x, y: x @ y + 1e-5, lambda x, y: (x @ y).t(), lambda x, y: (x @ y).double(), lambda x, y: (x @ y).t().contiguous().t())
print([len(judged.faults(program, each)) for each in (torch.mm, *wrong)])
"""


def ran(*command: str | Path) -> str:
    """What a program prints in the environment that has torch."""
    python = environments.python("torch")
    if python is None or not OPS.exists():
        pytest.skip("there is no environment with torch and our ops (make setup-torch makes it)")
    paths = os.pathsep.join(map(str, (HERE / "compiled", HERE.parents[1] / "python")))
    done = subprocess.run(
        [python, "-B", "-W", "ignore", *command],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_few_operators():
    rows = [json.loads(line) for line in ran(HERE / "compiled", "--kernels", *FEW).splitlines()]
    assert {row["name"]: row["kernels"] for row in rows} == FEW
    assert all(row["faults"] == [] and row["breaks"] == 0 for row in rows), rows


def test_what_is_wrong_is_found():
    assert ran("-c", PLANTED).strip() == "[0, 1, 1, 1, 1]"
