# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in ``bench card``: what is timed, how results are checked, and what the page says. Every rate in here is made up."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright.bench import environments
from tilewright.bench.card import attention, page, plan
from tilewright.bench.card.plan_operators import Operator

ROOT = Path(__file__).parents[2]
SPEC = tw.AttentionSpec(queries=37, keys=37, head=16, heads=4, kv_heads=2, batch=(3,), q="bf16", causal=True)


def test_right_results_pass_and_wrong_ones_do_not() -> None:
    python = environments.python("torch")
    if python is None:
        pytest.skip("there is no environment with torch (make setup-torch makes it)")
    done = subprocess.run(
        [python, ROOT / "test" / "Inputs" / "checked_attention.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_operations_are_those_of_keys_that_are_seen() -> None:
    assert attention.flops(replace(SPEC, causal=False)) == 3 * 4 * 2 * (2 * 37 * 37 * 16)
    assert attention.flops(SPEC) == 3 * 4 * 2 * (2 * sum(range(1, 38)) * 16)
    assert attention.words(SPEC) == "3 × 4 heads of 2, 37×37×16, causal"


def test_steps_have_the_models_sizes_first_and_causal_ones_as_many_queries_as_keys() -> None:
    steps = list(plan.attentions())
    assert len({step.key for step in steps}) == len(steps) >= 6
    for step in steps:
        first = step.kernels[0]
        assert isinstance(first, Operator)
        assert first.sizes == ()
        spec = first.spec
        assert isinstance(spec, tw.AttentionSpec)
        assert not spec.causal or spec.queries == spec.keys
    quick = plan.quick_of(steps[0])
    assert quick.kernels == steps[0].kernels[:1]
    assert replace(quick, quick=True).key != steps[0].key


def test_the_page_has_a_row_for_each() -> None:
    rates = {name: {"tflops": rate} for name, rate in (("tilewright", 60.0), ("FlashAttention", 40.0), ("cuDNN", 50.0))}
    tried = [{"sizes": {}, "tflops": 50.0}, {"sizes": {"kc": 64}, "tflops": 61.0}]
    record: dict[str, Any] = {"step": "s", "kind": "attention", "what": "as much", "rates": rates, "tried": tried}
    text = page.markdown([record], "a command")
    assert "| as much | 60.0 | 1.50 | 1.20 | kc=64 | kc=64: 61, the model's: 50 |" in text
