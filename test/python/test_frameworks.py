# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls on arrays of torch and JAX, by programs that run where `tilewright bench setup` has installed these."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tilewright.bench import environments

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "python"
PROGRAMS = {"torch": "torch", "jax": "jax", "torch_ops": "torch", "torch_backend": "torch"}
"""By what is after "on_" in the name of a program: the environment that it runs in."""
NEEDS = dict.fromkeys(("torch_ops", "torch_backend"), PACKAGE / "tilewright" / "torch" / "libtilewright_torch.so")
CASES = [
    (name, case) for name in PROGRAMS for case in re.findall(r"@case\ndef (\w+)", (HERE / f"on_{name}.py").read_text())
]


@cache
def outcomes(name: str) -> dict[str, str]:
    """What came of each case: nothing, or the traceback of a failure."""
    python = environments.python(PROGRAMS[name])
    if python is None:
        pytest.skip(f"there is no environment with {PROGRAMS[name]} (make setup-frameworks installs it)")
    if name in NEEDS and not NEEDS[name].exists():
        pytest.skip(f"{NEEDS[name].name} is not built (make setup-torch builds it)")
    done = subprocess.run(
        [str(python), "-B", "-W", "ignore", str(HERE / f"on_{name}.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return {row["case"]: row["failure"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case}" for name, case in CASES])
def test_a_call_on_their_arrays(name: str, case: str) -> None:
    assert outcomes(name)[case] == ""
