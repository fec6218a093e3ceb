# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of the plan that is about attention, convolutions and products with more than A and B: which kernels are checked on a card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from tilewright.bench.suites import Shape
from tilewright.dtypes import to_numpy
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.epilogues import parse
from tilewright.spec import MatmulSpec

Spec = AttentionSpec | Conv2dSpec | MatmulSpec
"""What an operator computes."""


def _product(**fields: Any) -> MatmulSpec:  # noqa: ANN401 - as of a spec
    """The spec of those fields, of which entries are named by text, as on the command line."""
    entries: dict[str, Any] = {name: parse(fields[name]) for name in ("epilogue", "prologue_a") if name in fields}
    return MatmulSpec(**(fields | entries))


_SPECS: Mapping[str, Callable[..., Spec]] = MappingProxyType(
    {"attention": AttentionSpec, "conv2d": Conv2dSpec, "product": _product}
)


@dataclass(frozen=True, slots=True)
class Operator:
    """A kernel of the bundle for an operator of known extents.

    Attributes:
        operator: "attention", "conv2d", or "product": of extents that are known, with entries of `MatmulSpec` by their text.
        fields: Those of its spec that are given, by name.
        strategy: The strategy.
        sizes: Those of its sizes that are given.
        aligned: Whether it is the form for rows of whole pieces of 16 bytes, or the one for any rows.
        boxed: Whether it is the form for a result whose rows are whole pieces of 16 bytes, or the one for any.
    """

    operator: str
    fields: tuple[tuple[str, Any], ...]
    strategy: str
    sizes: tuple[tuple[str, Any], ...] = ()
    aligned: bool = True
    epilogue: str = ""
    boxed: bool = True

    @property
    def key(self) -> str:
        """Its name in the bundle, the same on every machine."""
        text = named(self)
        return f"{self.strategy}-{self.operator}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def spec(self) -> Spec:
        """What it computes."""
        return _SPECS[self.operator](**dict(self.fields))

    @property
    def shape(self) -> Shape:
        """As a product: queries by keys by elements of a query, or pixels by channels by what is summed for each."""
        spec = self.spec
        if isinstance(spec, AttentionSpec):
            return Shape(spec.queries, spec.keys, spec.head)
        if isinstance(spec, MatmulSpec):
            return Shape(spec.m, spec.n, spec.k)
        pixels = spec.n * spec.oh * spec.ow
        return Shape(pixels, spec.oc // spec.groups, spec.kh * spec.kw * spec.ic // spec.groups)

    @property
    def gathered(self) -> int:
        """Rows of the table whose rows are gathered, by numbers that are the operand behind A and B; 0 where none are."""
        spec = self.spec
        return spec.a_shape[0] if isinstance(spec, MatmulSpec) and spec.gathers else 0

    @property
    def types(self) -> str:
        """The type that is multiplied."""
        spec = self.spec
        return str(spec.q if isinstance(spec, AttentionSpec) else spec.a)

    @property
    def layout(self) -> str:
        """What it is, where products have their layout."""
        return self.operator


def named(kernel: Any) -> str:  # noqa: ANN401 - of this plan
    """All that tells a kernel of the plan from others, as text: names of kernels in published results stay what they are."""
    about = asdict(kernel)
    if about["boxed"]:
        del about["boxed"]
    return json.dumps(about, sort_keys=True)


def kernels(*, quick: bool = False) -> tuple[Operator, ...]:
    """Those that are checked; a quick run has two of warp groups."""
    found = (
        Operator(operator, tuple(sorted(fields.items())), strategy, tuple(sorted(sizes.items())))
        for operator, strategy, sizes, fields in _CHECKED
    )
    forms = tuple(replace(each, boxed=_stores_pieces(each.spec)) for each in found)
    return forms[:2] if quick else forms


def _stores_pieces(spec: Spec) -> bool:
    """Whether rows of the result are whole pieces of 16 bytes."""
    columns = spec.result.shape[-1] // (spec.groups if isinstance(spec, Conv2dSpec) else 1)
    return columns * to_numpy(spec.result.type).itemsize % 16 == 0


def timed() -> Iterator[tuple[Operator, ...]]:
    """Attention that is timed: of each the model's sizes, and others that are tried."""
    for fields in _TIMED:
        given = tuple(sorted({"q": "bf16", **fields}.items()))
        yield tuple(
            Operator("attention", given, "warp_group_softmax", tuple(sorted(sizes.items()))) for sizes in _TRIED
        )


_TIMED: tuple[Mapping[str, Any], ...] = (
    {"queries": 4096, "keys": 4096, "batch": (4,), "head": 128, "heads": 16, "causal": False},
    {"queries": 4096, "keys": 4096, "batch": (4,), "head": 128, "heads": 16, "causal": True},
    {"queries": 4096, "keys": 4096, "batch": (4,), "head": 64, "heads": 32, "causal": False},
    {"queries": 4096, "keys": 4096, "batch": (4,), "head": 64, "heads": 32, "causal": True},
    {"queries": 8192, "keys": 8192, "batch": (1,), "head": 128, "heads": 32, "kv_heads": 8, "causal": True},
    {"queries": 1, "keys": 8192, "batch": (16,), "head": 128, "heads": 32, "kv_heads": 8},
)
"""What is timed: prompts, with heads of their own and shared ones, and a token of sixteen sequences."""
_TRIED: tuple[Mapping[str, Any], ...] = (
    {},
    {"kc": 128},
    {"kc": 64},
    {"pingpong": False},
    {"overlap": False, "pingpong": False},
)
_ODD: Mapping[str, Any] = MappingProxyType({"m": 457, "n": 514, "k": 330, "a": "bf16", "c": "bf16", "layout": "nt"})
_HEADS: Mapping[str, Any] = MappingProxyType({"heads": 4, "kv_heads": 2, "q": "bf16"})
_IMAGES: Mapping[str, Any] = MappingProxyType(
    {"n": 2, "h": 23, "w": 19, "ic": 64, "oc": 72, "kh": 3, "kw": 3, "a": "bf16"}
)
_CHECKED: tuple[tuple[str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    (
        "attention",
        "warp_group_softmax",
        {},
        {"queries": 333, "keys": 457, "head": 128, "causal": "lower_right", **_HEADS},
    ),
    ("attention", "warp_group_softmax", {}, {"queries": 3, "keys": 2900, "head": 128, **_HEADS}),
    ("attention", "warp_group_softmax", {}, {"queries": 333, "keys": 457, "head": 64, "causal": True, **_HEADS}),
    ("attention", "warp_group_softmax", {}, {"queries": 333, "keys": 457, "head": 128, **_HEADS, "q": "f16"}),
    ("attention", "warp_group_softmax", {}, {"queries": 133, "keys": 257, "head": 256, "out": "f32", **_HEADS}),
    (
        "attention",
        "warp_group_softmax",
        {"overlap": False, "pingpong": False},
        {"queries": 333, "keys": 457, "head": 64, **_HEADS},
    ),
    ("attention", "warp_group_softmax", {}, {"queries": 733, "keys": 957, "head": 128, "sequences": 3, **_HEADS}),
    (
        "attention",
        "warp_group_softmax",
        {},
        {"queries": 733, "keys": 457, "head": 64, "causal": "lower_right", "sequences": 3, "page": 16, **_HEADS},
    ),
    (
        "attention",
        "warp_group_softmax",
        {},
        {"queries": 1, "keys": 2900, "head": 128, "batch": (3,), "page": 64, **_HEADS, "heads": 6},
    ),
    ("attention", "shared_softmax", {}, {"queries": 333, "keys": 457, "head": 64, "causal": True, **_HEADS}),
    ("attention", "shared_softmax", {}, {"queries": 57, "keys": 91, "head": 64, "batch": (2,), "page": 1, **_HEADS}),
    ("attention", "shared_softmax", {}, {"queries": 57, "keys": 91, "head": 64, "heads": 2, "q": "f32"}),
    # Two products of an A; steps of tiles that blocks divide; rows by their numbers; a residual in shared memory before it is added.
    ("product", "warpgroup", {"bm": 128, "bn": 128}, {**_ODD, "epilogue": "bias:n,glu:gelu"}),
    ("product", "warpgroup", {"bm": 128, "bn": 128, "cluster": 2, "streamed": 1}, {**_ODD, "k": 3336}),
    ("product", "warpgroup", {"bm": 128, "bn": 64, "streamed": 1}, {**_ODD, "k": 3336, "epilogue": "glu"}),
    ("product", "warpgroup", {"bm": 128, "bn": 128, "cluster": 2}, {**_ODD, "prologue_a": "gather_rows:300"}),
    ("product", "warpgroup", {"bm": 16, "bn": 128, "swapped": 1}, {**_ODD, "m": 13, "prologue_a": "gather_rows:300"}),
    ("product", "warpgroup", {"bm": 128, "bn": 256, "fetched": 1}, {**_ODD, "epilogue": "gelu,residual:mn:bf16"}),
    (
        "product",
        "warpgroup",
        {"bm": 64, "bn": 128, "pingpong": 1, "fetched": 1},
        {**_ODD, "epilogue": "residual:mn:bf16"},
    ),
    ("conv2d", "mma_sync", {}, {"padding": 1, **_IMAGES}),
    ("conv2d", "mma_sync", {}, {"stride": 2, "groups": 2, **_IMAGES, "oc": 80}),
    ("conv2d", "warpgroup", {}, {**_IMAGES, "kh": 1, "kw": 1}),
    # Patches in boxes: over the ends of rows and images, with a step of two elements of the filter, whose last one is none.
    ("conv2d", "warpgroup", {}, {"padding": 1, **_IMAGES, "ic": 64}),
    (
        "conv2d",
        "warpgroup",
        {"bk": 128, "cluster": 2},
        {**_IMAGES, "ic": 128, "groups": 2, "oc": 80, "stride": 2, "dilation": (2, 1), "padding": ((0, 3), (2, 1))},
    ),
    ("conv2d", "simt", {}, {"padding": 1, **_IMAGES, "a": "f32", "ic": 8, "oc": 12}),
)
"""Operator, strategy, sizes and fields: what shows a mistake of the emulator's or the model's first."""
