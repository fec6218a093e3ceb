# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and attention of random shapes, between guard pages: a part of `generated`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import products
import tilewright as tw
from guard_pages import PLACINGS, Guarded, Placing
from matrix import timed
from matrix_targets import Runner
from tilewright.dtypes import to_numpy
from tilewright.payload.reference import within_bound

_EPILOGUES = ((), (), (tw.bias(), tw.relu()), (tw.residual(), tw.gelu()), (tw.scale_by(""),), (tw.bias(), tw.silu()))
_OF_BYTES = ((), (tw.scale_by("n"), tw.quantize(2.5, 3, "u8")))
_TYPES = (
    ({"a": "f32"}, _EPILOGUES),
    ({"a": "f64"}, _EPILOGUES),
    ({"a": "f16"}, _EPILOGUES),
    ({"a": "bf16", "c": "bf16"}, ((),)),
    ({"a": "i8"}, ((),)),
    ({"a": "u8", "b": "i8"}, _OF_BYTES),
    ({"a": "i8", "b": "u8"}, ((),)),
)
"""Of convolutions, and what may follow their sums."""
_WHOLE = [each for each in PLACINGS if not each.fenced and not each.gap]
"""Where images lie, which have no gaps between their elements."""
_HEADS = (1, 3, 8, 16, 17, 40, 64, 80, 128)
_LENGTHS = (0, 1, 2, 3, 17, 33, 64, 65, 100, 129, 200)


@dataclass(frozen=True)
class Case:
    """An operator, and how it is compiled and called.

    Attributes:
        seed: What it was drawn with.
        compiled: What is compiled; extents of attention may be open in it.
        spec: What is computed in the call.
        options: Target and threads.
        placings: Of the operands in turn, and of the result.
    """

    seed: int
    compiled: Any
    spec: Any
    options: Mapping[str, Any]
    placings: list[Placing]

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"seed {self.seed}: {self.compiled}, called as {self.spec} ({options}; {self.placings})"


def draw(seed: int) -> Case:
    """The case of a seed: the first draw that a spec can say."""
    chance = random.Random(seed)
    of = _convolution if chance.random() < 0.5 else _attention
    while True:
        try:
            compiled, spec = of(chance)
        except tw.SpecError:
            continue
        target = "host" if chance.random() < 0.5 else chance.choice(products.LEVELS)
        options = {"target": target, "threads": chance.choice((1, 1, 1, 2))}
        places = _WHOLE if of is _convolution else PLACINGS
        return Case(seed, compiled, spec, options, chance.choices(places, k=3))


def _convolution(chance: random.Random) -> tuple[Any, Any]:
    """One with up to 16 rows and columns more than its filter needs."""
    types, epilogues = chance.choice(_TYPES)
    groups = chance.choice((1, 1, 1, 2, 3))
    ic, oc = groups * chance.choice((1, 3, 8, 16, 33)), groups * chance.choice((1, 5, 16, 17, 40))
    if chance.random() < 0.2:
        groups, oc = ic, ic * chance.choice((1, 1, 2))
    kh, kw = chance.choice((1, 1, 2, 3, 5)), chance.choice((1, 1, 2, 3, 7))
    dilation = chance.randint(1, 2), chance.randint(1, 3)
    layout = chance.choice(("nhwc", "nhwc", "nchw"))
    fields = {
        "stride": (chance.randint(1, 3), chance.randint(1, 3)),
        "dilation": dilation,
        "padding": chance.choice(("same", "valid", 1, (2, 3), ((0, 1), (4, 0)), ((3, 3), (9, 2)))),
        "groups": groups,
        "layout": layout,
        "filter": "ohwi" if layout == "nhwc" and chance.random() < 0.4 else None,
        "w_packed": layout == "nhwc" and groups == 1 and chance.random() < 0.3,
        "epilogue": chance.choice(epilogues),
    }
    h, w = ((size - 1) * step + chance.randint(1, 16) for size, step in zip((kh, kw), dilation, strict=True))
    spec = tw.Conv2dSpec(chance.choice((1, 1, 2, 3)), h, w, ic, oc, kh, kw, **types, **fields)
    return spec, spec


def _attention(chance: random.Random) -> tuple[Any, Any]:
    """One with up to 200 queries and keys, of which some calls alone tell how many."""
    kv_heads = chance.randint(1, 3)
    element = chance.choice(("f32", "f32", "f16", "bf16"))
    stored = {"k": "f8E4M3FN", "v": "f8E4M3FN"} if element == "bf16" and chance.random() < 0.3 else {}
    masked = chance.random() < 0.4
    fields: dict[str, Any] = {
        "head": chance.choice(_HEADS),
        "value_head": chance.choice((None, None, chance.choice(_HEADS))),
        "heads": kv_heads * chance.randint(1, 3),
        "kv_heads": kv_heads,
        "q": element,
        "causal": chance.choice((False, False, True, "lower_right")),
        "batch": chance.choice(((), (), (2,), (2, 1))),
        "scale": chance.choice((None, None, 3.0, -1.0)),
        **stored,
    }
    if masked:
        fields |= {"mask": chance.choice(("f32", "u8", element)), "mask_axes": chance.choice(("mn", "hmn", "n", "hn"))}
    sizes = {"queries": chance.choice(_LENGTHS), "keys": chance.choice(_LENGTHS)}
    is_open = {name: None for name in sizes if chance.random() < 0.25}
    return tw.AttentionSpec(**{**sizes, **is_open}, **fields), tw.AttentionSpec(**sizes, **fields)


def run(case: Case, place: Runner, spent: Counter[str]) -> str:
    """Compiles a case, calls it once, and checks each element of the result and each byte around it."""
    with timed(spent, "compile"):
        kernel = place.compile(case.compiled, case.options)
    arrays = _operands(case.spec, case.seed)
    first, second, last = case.placings
    # numpy's strides know no floats of eight bits.
    bits = [each.view(np.uint8) if each.itemsize == 1 else each for each in arrays]
    placed = [Guarded(each, (first, second)[at % 2]) for at, each in enumerate(bits)]
    for each in placed:
        each.make_read_only()
    given: list[Any] = [each.matrix.view(like.dtype) for each, like in zip(placed, arrays, strict=True)]
    if getattr(case.spec, "w_packed", False):
        given[1] = kernel.pack("w", given[1])
    kind = np.dtype(to_numpy(case.spec.result.type))
    result = Guarded(np.full(case.spec.result.shape, products.foreign(kind), kind), last)
    with timed(spent, "run"):
        kernel(*given, out=result.matrix)
    with timed(spent, "reference"):
        known, bound = tw.reference(case.spec, *arrays), tw.error_bound(case.spec, *arrays)
    wrong = np.argwhere(~within_bound(result.matrix, known, bound))
    assert len(wrong) == 0, f"{len(wrong)} elements are wrong, the first at {wrong[0]}"
    assert not result.is_written_around(), "written around the result"
    return "right"


def _operands(spec: Any, seed: int) -> list[np.ndarray]:
    """Floats and masks as people have them: normal numbers, a third of each mask hidden; integers over their whole range."""
    chance = np.random.default_rng(seed)
    return [_values(chance, each, spec) for each in spec.operands]


def _values(chance: np.random.Generator, each: Any, spec: Any) -> np.ndarray:
    kind = to_numpy(each.type)
    if each.name == "mask":
        hidden = chance.random(each.shape) < 1 / 3
        return (
            np.where(hidden, 0, 255) if spec.mask == "u8" else np.where(hidden, -np.inf, chance.normal(size=each.shape))
        ).astype(kind)
    if each.type.kind == "float":
        return chance.uniform(-1, 1, each.shape).astype(kind)
    if each.type.bits > 8:
        return chance.integers(-100, 100, each.shape).astype(kind)
    return chance.integers(np.iinfo(kind).min, np.iinfo(kind).max, each.shape, kind, endpoint=True)
