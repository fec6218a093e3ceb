# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of `tilewright` in compiled functions: a program for the environment that has torch. `test_frameworks` runs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import tilewright as tw
from framework_cases import case, run

torch: Any = import_module("torch")
import_module("tilewright.torch.inductor.backend")
BACKENDS = ("eager", "inductor", "tilewright")
A, B = torch.rand(4, 6) - 0.5, torch.rand(6, 5) - 0.5
KERNEL = tw.compile(tw.MatmulSpec(4, 5, 6))


def breaks(function: Callable[..., Any], *arguments: Any, backend: str = "eager") -> int:
    """How often the graph of a function breaks, whose results are checked."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    found, expected = torch.compile(function, backend=backend)(*arguments), function(*arguments)
    assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert torch.equal(found, expected)
    return sum(torch._dynamo.utils.counters["graph_break"].values())


@case
def products_are_in_the_graph() -> None:
    def product(a: Any, b: Any) -> Any:
        return tw.matmul(a, b) + 1

    for backend in BACKENDS:
        assert not breaks(product, A, B, backend=backend)
    for type_ in (torch.float64, torch.bfloat16, torch.float16, torch.complex64):
        assert not breaks(product, A.to(type_), B.to(type_))
    assert not breaks(product, (A * 100).to(torch.int8), (B * 100).to(torch.int8))
    for a, b in ((A[0], B), (A, B[:, 0]), (torch.rand(2, 1, 3, 6), torch.rand(4, 6, 5)), (A, B.T.contiguous().T)):
        assert not breaks(product, a, b)


@case
def products_of_any_rows_compile_once() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: tw.matmul(a, b) * 2, backend="eager", fullgraph=True)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for rows in (3, 8, 9):
        a = torch.rand(rows, 6)
        torch._dynamo.mark_dynamic(a, 0)
        assert torch.equal(compiled(a, B), tw.matmul(a, B) * 2)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs + 1


@case
def attention_is_in_the_graph() -> None:
    q, k, v = torch.rand(2, 4, 5, 8), torch.rand(2, 2, 7, 8), torch.rand(2, 2, 7, 6)
    for backend in BACKENDS:
        assert not breaks(lambda q, k, v: tw.attention(q, k, v) + 1, q, k, v, backend=backend)
    for type_ in (torch.bfloat16, torch.float16):
        assert not breaks(lambda q, k, v: tw.attention(q, k, v, scale=0.3), q.to(type_), k.to(type_), v.to(type_))
    square, seen = torch.rand(2, 4, 5, 8), torch.rand(5, 5) > 0.5
    assert not breaks(lambda q: tw.attention(q, q, q, causal=True), square)
    assert not breaks(lambda q, m: tw.attention(q, q, q, m), square, seen)
    assert not breaks(
        lambda q, m: tw.attention(q, q, q, m), square.transpose(1, 2).contiguous().transpose(1, 2), seen * 1.0
    )
    assert not breaks(lambda q: tw.attention(q[0, 0], q[0, 1], q[0, 2]), square)


@case
def convolutions_are_in_the_graph() -> None:
    images, filters = torch.rand(1, 4, 6, 7), torch.rand(8, 4, 3, 3)
    last = images.to(memory_format=torch.channels_last)
    for backend in BACKENDS:
        assert not breaks(lambda x, w: tw.conv2d(x, w, layout="nchw") + 1, images, filters, backend=backend)
    assert not breaks(lambda x, w: tw.conv2d(x, w, layout="nchw"), last, filters)
    assert not breaks(lambda x, w: tw.conv2d(x, w, layout="nchw", stride=2, padding=1), last[:, :, :1, :1], filters)
    assert not breaks(
        lambda x, w: tw.conv2d(x, w, stride=(1, 2), dilation=2, padding=((1, 2), 3)),
        last.permute(0, 2, 3, 1).to(torch.bfloat16),
        filters.permute(2, 3, 1, 0).contiguous().to(torch.bfloat16),
    )
    assert not breaks(
        lambda x, w: tw.conv2d(x, w, layout="nchw", groups=2),
        (images * 9).to(torch.uint8),
        torch.ones(8, 2, 3, 3, dtype=torch.int8),
    )


@case
def what_no_graph_takes_is_called_as_it_is() -> None:
    images, filters = torch.rand(1, 4, 6, 6), torch.rand(8, 4, 3, 3)
    starts = torch.tensor([0, 4], dtype=torch.int32)
    calls: tuple[Callable[[Any, Any], Any], ...] = (
        lambda a, b: tw.matmul(a, b.numpy()) + 1,
        lambda a, b: tw.matmul(a.double(), b) + 1,
        lambda a, b: tw.matmul(a, b, out=torch.empty(4, 5)) + 1,
        lambda a, b: tw.matmul_each([a], [b])[0] + 1,
        lambda a, b: tw.attention(a, a, a, out=torch.empty(4, 6)) + 1,
        lambda a, b: tw.attention(a[None], a[None], a[None], q_starts=starts, k_starts=starts) + 1,
        lambda a, b: tw.conv2d(images, filters, layout="nchw", padding="same") + a.sum(),
        lambda a, b: tw.conv2d(images, filters, layout="nchw", epilogue=(tw.relu(),)) + a.sum(),
        lambda a, b: KERNEL(a, b) + 1,
    )
    for call in calls:
        assert breaks(call, A, B)


if __name__ == "__main__":
    torch.manual_seed(0)
    run()
