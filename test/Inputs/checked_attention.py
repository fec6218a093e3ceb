# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks results of attention as ``bench card`` does, on torch's CPU tensors: right ones pass, and each of some wrong ones does not."""

from dataclasses import replace
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from tilewright.bench.card import attention
from tilewright.operator_specs import AttentionSpec

CAUSAL = AttentionSpec(queries=37, keys=37, head=16, heads=4, kv_heads=2, batch=(3,), q="bf16", causal=True)
HALF = dict.fromkeys(("q", "k", "v", "out"), "f16")

for spec in (CAUSAL, replace(CAUSAL, causal=False), replace(CAUSAL, queries=1, causal=False, **HALF)):
    given = attention.operands(torch, spec, "cpu")
    known = attention.expected(torch, spec, given)
    right: Any = attention.peers(torch, spec)["FlashAttention"](given)()
    assert attention.wrong(right, known) == ""
    for entry, head in known.heads:
        broken = right.clone()
        broken[entry, head, -1, 3] += 0.1
        assert attention.wrong(broken, known) == "1 elements are wrong"
    # Heads that are not compared have to be written.
    broken = right.clone()
    broken[1, 1, 0, 0] = float("nan")
    assert attention.wrong(broken, known) == "1 elements are wrong"
