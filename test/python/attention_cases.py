# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention cases for tests: few, in which every length, head size, type, mask and group occurs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from tilewright.dtypes import to_numpy

# Queries, keys, head and, where they are not 1, heads and heads of keys; what is open in the compiled spec; and the rest.
_CASES: list[tuple[tuple[int, ...], str, dict[str, Any]]] = [
    ((129, 129, 64, 2, 2), "", {}),
    ((129, 129, 64), "", {"q": "bf16", "causal": True}),
    ((17, 3, 40, 4, 2), "", {"q": "f16", "value_head": 17, "batch": (2,)}),
    ((65, 300, 1), "queries", {"mask": "f32", "mask_axes": "hmn", "scale": 3.0}),
    ((3, 129, 80, 6, 2), "keys", {"causal": "lower_right", "mask": "u8", "mask_axes": "n"}),
    ((70, 100, 41, 3, 1), "queries keys", {"q": "bf16", "causal": "lower_right", "out": "f32"}),
    ((17, 97, 128), "", {"q": "bf16", "k": "f8E4M3FN", "mask": "bf16", "mask_axes": "bmn", "batch": (2, 1)}),
    ((40, 17, 64, 2), "", {"q": "f32", "k": "f8E5M2", "v": "f8E3M4", "scale": -1.0}),
    ((1, 300, 128, 4, 4), "", {"q": "bf16"}),
    ((1, 129, 80, 8, 2), "keys", {"mask": "f16", "mask_axes": "hn"}),
    ((3, 33, 300, 2, 1), "", {"q": "bf16", "causal": "upper_left", "value_head": 41}),
    ((1, 17, 63, 3, 1), "", {"q": "bf16", "k": "f8E4M3FN", "mask": "u8", "mask_axes": "hmn"}),
    ((4, 37, 72, 4, 1), "", {"q": "bf16", "mask": "u8", "mask_axes": "hmn", "causal": "lower_right"}),
    ((1, 1, 1), "", {}),
]
COUNT = len(_CASES)


def specs(number: int) -> tuple[tw.AttentionSpec, tw.AttentionSpec]:
    """What case `number` computes, and what is compiled for it."""
    (queries, keys, head, *heads), is_open, rest = _CASES[number]
    sizes = {"queries": queries, "keys": keys}
    rest = {"head": head, **dict(zip(("heads", "kv_heads"), heads, strict=False)), **rest}
    return (
        tw.AttentionSpec(**sizes, **rest),
        tw.AttentionSpec(**{name: None if name in is_open else size for name, size in sizes.items()}, **rest),
    )


def operands(spec: tw.AttentionSpec, seed: int) -> list[np.ndarray]:
    """Normal numbers; of masks a third are hidden, those of one row, where there are several, all."""
    random = np.random.default_rng(seed)
    found = []
    for each in spec.operands:
        values = random.normal(size=each.shape)
        if each.name == "mask":
            hidden = random.random(each.shape) < 1 / 3
            if "m" in spec.mask_axes:
                hidden[..., 0, :] = True
            values = np.where(hidden, 0, 255) if spec.mask == "u8" else np.where(hidden, -np.inf, values)
        found.append(values.astype(to_numpy(each.type)))
    return found
