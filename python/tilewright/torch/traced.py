# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile makes of functions of `tilewright` that take arrays: an op of the graph where there is one, or a call as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._C._dynamo.eval_frame import set_code_exec_strategy  # pyright: ignore[reportMissingImports]
from torch._dynamo import trace_rules  # pyright: ignore[reportMissingImports]
from torch._dynamo.types import FrameAction, FrameExecStrategy  # pyright: ignore[reportMissingImports]

from tilewright.runtime.attention import attention
from tilewright.runtime.compile import compile
from tilewright.runtime.conv2d import FILTERS, conv2d, spec_of
from tilewright.runtime.matmul import matmul, matmul_each
from tilewright.torch.ops import NAMESPACE
from tilewright.torch.types import ELEMENTS, torch_type

Given: TypeAlias = Any
"""A tensor of torch, whose types are not known here, or whatever a function of `tilewright` was given in place of one."""
_MODULES = ("tilewright.runtime", "tilewright.standalone", "tilewright.tuning")
"""Modules whose functions are called as they are: what they do with memory is nothing for a graph."""
_FUNCTIONS = (matmul, matmul_each, conv2d, attention, compile)
"""Those that people call. Nothing that they call is followed either, such as what compiles a kernel."""
_ADDED = torch.library.Library("tilewright", "FRAGMENT")
"""What is registered here, while it lives."""
_SIDES = 4
"""Of an image, each with its padding."""
_RESULTS: Mapping[Any, Any] = MappingProxyType(
    {
        **{each: each for each in (torch.float32, torch.float64, torch.complex64, torch.complex128)},
        **{each: each for each in (torch.int32, torch.int64)},
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
        torch.int8: torch.int32,
        torch.uint8: torch.int32,
    }
)
"""By the type of both operands, that of their product as `tw.matmul` has it."""


def _product(a: Given, b: Given, threads: int) -> Given:
    return matmul(a, b, threads=threads)


def _fake_product(a: Given, b: Given, threads: int) -> Given:
    shape = torch.matmul(a.to(torch.float32), b.to(torch.float32)).shape
    return a.new_empty(shape, dtype=_RESULTS[a.dtype])


def _attended(
    q: Given,
    k: Given,
    v: Given,
    mask: Given,
    causal: bool,
    scale: float | None,
    threads: int,
) -> Given:
    return attention(q, k, v, mask, causal=causal, scale=scale, threads=threads)


def _fake_attended(q: Given, _k: Given, v: Given, *_others: Given) -> Given:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _convolved(
    x: Given,
    w: Given,
    layout: str,
    filter: str | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    sides: Sequence[int],
    groups: int,
    threads: int,
) -> Given:
    options = {"stride": tuple(stride), "dilation": tuple(dilation), "padding": _pairs(sides), "groups": groups}
    return conv2d(x, w, layout=layout, filter=filter, **options, threads=threads)


def _fake_convolved(
    x: Given,
    w: Given,
    layout: str,
    filter: str | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    sides: Sequence[int],
    groups: int,
    _threads: int,
) -> Given:
    images, filters = (tuple(map(int, each.shape)) for each in (x, w))
    options = (tuple(stride), tuple(dilation), _pairs(sides), groups)
    spec = spec_of(images, filters, ELEMENTS[x.dtype], ELEMENTS[w.dtype], layout, filter, *options)
    type_, by_pixels = torch_type(spec.operands[-1].type), (spec.n, spec.oh, spec.ow, spec.oc)
    if layout == "nhwc":
        return x.new_empty(by_pixels, dtype=type_)
    if x.shape[1] > 1 and x.stride(1) == 1 and not (x.shape[3] > 1 and x.stride(3) == 1):
        return x.new_empty(by_pixels, dtype=type_).permute(
            0, 3, 1, 2
        )  # Channels lie side by side, and those of the result too.
    return x.new_empty((spec.n, spec.oc, spec.oh, spec.ow), dtype=type_)


def _pairs(sides: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    above, below, left, right = sides
    return (above, below), (left, right)


def _pair(value: Given) -> Given:
    return (value, value) if isinstance(value, int) else value


def _are_taken(*tensors: Given) -> bool:
    for each in tensors:
        if not (isinstance(each, torch.Tensor) and each.device.type == "cpu" and each.dtype in ELEMENTS):
            return False
        if torch.is_grad_enabled() and each.requires_grad:
            return False
    return True


def _traced_matmul(a: Given, b: Given, *, threads: int = 1, out: Given = None) -> Given:
    if out is None and _are_taken(a, b) and a.dtype == b.dtype and a.dtype in _RESULTS:
        return NAMESPACE.array_matmul.default(a, b, threads)
    torch._dynamo.graph_break()
    return matmul(a, b, threads=threads, out=out)


def _traced_attention(
    q: Given,
    k: Given,
    v: Given,
    mask: Given = None,
    *,
    causal: Given = False,
    scale: float | None = None,
    threads: int = 1,
    out: Given = None,
    q_starts: Given = None,
    k_starts: Given = None,
    lengths: Given = None,
    table: Given = None,
) -> Given:
    tables = {"q_starts": q_starts, "k_starts": k_starts, "lengths": lengths, "table": table}
    seen = () if mask is None else (mask,)
    if (
        out is None
        and isinstance(causal, bool)
        and isinstance(scale, float | int | None)
        and all(each is None for each in tables.values())
        and _are_taken(q, k, v)
        and all(each.dtype == torch.bool or _are_taken(each) for each in seen)
    ):
        return NAMESPACE.array_attention.default(q, k, v, mask, causal, scale, threads)
    torch._dynamo.graph_break()
    return attention(q, k, v, mask, causal=causal, scale=scale, threads=threads, out=out, **tables)


def _traced_conv2d(
    x: Given,
    w: Given,
    *further: Given,
    layout: str = "nhwc",
    filter: str | None = None,
    stride: Given = 1,
    dilation: Given = 1,
    padding: Given = 0,
    groups: int = 1,
    epilogue: tuple[Given, ...] = (),
    threads: int = 1,
    out: Given = None,
) -> Given:
    stored = layout in FILTERS and filter in (None, *FILTERS[layout])
    plain = out is None and not further and not epilogue and isinstance(padding, int | list | tuple)
    sides = [side for each in _pair(padding) for side in _pair(each)] if plain else []
    if stored and len(sides) == _SIDES and _are_taken(x, w):
        return NAMESPACE.array_conv2d.default(
            x, w, layout, filter, _pair(stride), _pair(dilation), sides, groups, threads
        )
    torch._dynamo.graph_break()
    options = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups, "epilogue": epilogue}
    return conv2d(x, w, *further, layout=layout, filter=filter, **options, threads=threads, out=out)


_OPS = (
    (matmul, _traced_matmul, "array_matmul(Tensor a, Tensor b, int threads) -> Tensor", _product, _fake_product),
    (
        attention,
        _traced_attention,
        "array_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float? scale, int threads) -> Tensor",
        _attended,
        _fake_attended,
    ),
    (
        conv2d,
        _traced_conv2d,
        "array_conv2d(Tensor x, Tensor w, str layout, str? filter, int[] stride, int[] dilation, int[] sides, int groups, int threads)"
        " -> Tensor",
        _convolved,
        _fake_convolved,
    ),
)
"""What people call, what Dynamo follows instead, and the op that this takes: its schema, what it does, and its result without memory."""


def start() -> None:
    """Tells torch.compile, once for a process."""
    for name in _MODULES:
        trace_rules.add(name)
    for function in _FUNCTIONS:
        set_code_exec_strategy(function.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))
    for function, traced, schema, carried_out, fake in _OPS:
        _ADDED.define(schema)
        name = schema.partition("(")[0]
        _ADDED.impl(name, carried_out, "CPU")
        torch.library.register_fake(f"tilewright::{name}", fake)
        torch.compiler.substitute_in_graph(function)(traced)
