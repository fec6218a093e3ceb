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
    ((70, 100, 40, 4, 2), "", {"q": "bf16", "causal": "lower_right", "sequences": 4}),
    ((37, 61, 24, 4, 2), "queries keys sequences", {"sequences": 3, "page": 16, "causal": True}),
    ((3, 70, 63, 3, 1), "", {"q": "bf16", "batch": (3,), "page": 5, "causal": "lower_right"}),
    ((20, 33, 16), "keys", {"batch": (2, 2), "lengths": True, "causal": "lower_right"}),
]
COUNT = len(_CASES)
RAGGED = range(COUNT - 4, COUNT)
"""Those of entries that have lengths of their own."""


def specs(number: int) -> tuple[tw.AttentionSpec, tw.AttentionSpec]:
    """What case `number` computes, and what is compiled for it."""
    (queries, keys, head, *heads), is_open, rest = _CASES[number]
    sizes = {"queries": queries, "keys": keys}
    rest = {"head": head, **dict(zip(("heads", "kv_heads"), heads, strict=False)), **rest}
    opened = {name: tw.Dim() for name in is_open.split()}
    return tw.AttentionSpec(**sizes, **rest), tw.AttentionSpec(**{**sizes, **rest, **opened})


def operands(spec: tw.AttentionSpec, seed: int) -> list[np.ndarray]:
    """Normal numbers; of masks a third are hidden, those of one row, where there are several, all. Entries have lengths as they come."""
    random = np.random.default_rng(seed)
    if spec.is_ragged:
        return _ragged(spec, random)
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


def _ragged(spec: tw.AttentionSpec, random: np.random.Generator) -> list[np.ndarray]:
    """Operands of entries of different lengths, one of them empty; NaN in K and V wherever no entry has a key."""
    made: dict[str, Any] = {}
    outer = (spec.sequences,) if spec.packed else spec.batch
    for name, total in (("q_starts", spec.queries), ("k_starts", spec.keys)):
        inner = np.sort(random.integers(0, total + 1, outer[0] - 1))
        if len(inner) > 1:  # The first sequence has no query, and the second one no key.
            inner[name == "k_starts"] = 0 if name == "q_starts" else inner[0]
        made[name] = np.array([0, *inner, total], np.int32)
    lengths = random.integers(1, spec.keys + 1, outer)
    lengths.flat[:2] = spec.keys, 0
    shapes = {each.name: each.shape for each in spec.operands}
    if spec.page:
        count = lengths.size * spec.columns
        shapes["k"], shapes["v"] = ((count, *shapes[name][1:]) for name in "kv")
        made["table"] = random.permutation(count).astype(np.int32).reshape(*outer, spec.columns)
    values = {name: random.normal(size=shapes[name]) for name in "qkv"}
    for name in "kv" if spec.lengths else "":
        for place in np.ndindex(outer):
            for number in range(lengths[place], spec.columns * spec.page if spec.page else spec.keys):
                values[name][_key(spec, made, place, number)] = np.nan
    if spec.page:  # What names no page that is used names none.
        made["table"][np.arange(spec.columns) >= -(-lengths[..., None] // spec.page)] = -1
    made["lengths"] = lengths.astype(np.int32)
    made |= {name: values[name].astype(to_numpy(each.type)) for name, each in zip("qkv", spec.operands, strict=False)}
    return [made[each.name] for each in spec.operands]


def _key(spec: tw.AttentionSpec, made: dict[str, Any], place: tuple[int, ...], number: int) -> tuple[Any, ...]:
    """Where a key is, of all heads."""
    if not spec.page:
        return (*place, slice(None), number)
    column, within = divmod(number, spec.page)
    return made["table"][place][column], slice(None), within
