# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels on NVIDIA's cards: what a call says where there is none, and calls on a fake one, which `on_fake_card` has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake_driver
import numpy as np
import pytest
import tilewright as tw
from tilewright.errors import OperandError, TargetError

HERE = Path(__file__).parent
SCRIPT = HERE / "on_fake_card.py"
CASES = re.findall(r"@case\ndef (\w+)", SCRIPT.read_text())


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What came of each case: nothing, or the traceback of a failure."""
    folder = fake_driver.made(tmp_path_factory)
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"},
    )
    assert done.returncode == 0, done.stderr
    return {row["case"]: row["failure"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", CASES)
def test_a_call_on_a_fake_card(case: str, outcomes: dict[str, str]) -> None:
    assert outcomes[case] == ""


def test_without_a_card_a_call_says_what_is_missing() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a card")
    kernel = tw.compile(tw.MatmulSpec(m=4, n=4, k=4), target="sm_90a")
    a = np.ones((4, 4), np.float32)
    with pytest.raises(TargetError, match=r"cuda-core|driver.*target.emulated") as caught:
        kernel(a, a)
    assert "emulated" in str(caught.value)


def test_only_a_card_has_streams() -> None:
    kernel: Any = tw.compile(tw.MatmulSpec(m=4, n=4, k=4), target=tw.targets.gpu("sm_90a").emulated())
    a = np.ones((4, 4), np.float32)
    with pytest.raises(OperandError, match="stream"):
        kernel(a, a, stream=1)
