# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of torch.compile's with kernels of ours: a program for the environment that has torch. `test_torch_backend` runs it.

Most rows run the rewritten graph op by op, so that Inductor compiles nothing.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

from framework_cases import case, run

torch: Any = import_module("torch")
backend: Any = import_module("tilewright.torch.inductor.backend")
optimize: Any = import_module("tilewright.torch").optimize
F, nn = torch.nn.functional, torch.nn
UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Row:
    """A function of tensors and what is expected of its graph.

    Attributes:
        name: Names it.
        function: The function.
        shapes: Of its tensors.
        kernels: How many kernels there are, and how many other ops that compute remain.
        steps: Roundings that one element of the result goes through at most.
        types: Element types.
        fewer: Whether fewer other ops may remain: the processor's model chooses the layout of images.
    """

    name: str
    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    kernels: tuple[int, int] = (1, 0)
    steps: int = 40
    types: tuple[Any, ...] = (torch.float32,)
    fewer: bool = False


def linear(activation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w, b: activation(F.linear(x, w, b))


def repeated(x: Any, times: int) -> Any:
    """Each head of keys as often as heads of queries share it."""
    batch, heads, *rest = x.shape
    return x[:, :, None].expand(batch, heads, times, *rest).reshape(batch, heads * times, *rest)


LINEAR = ((2, 3, 8), (12, 8), (12,))
IMAGES = ((2, 4, 6, 5), (8, 4, 3, 3), (8,))
HEADS = ((2, 3, 7, 8), (2, 3, 9, 8), (2, 3, 9, 8))
NORMED = ((2, 3, 8), (12, 8), (8,), (8,))
ROWS = [
    *(
        Row(name, linear(activation), LINEAR, types=types)
        for name, activation, types in (
            ("linear", lambda y: y, (*FLOATS, torch.float64)),
            ("relu", F.relu, FLOATS[:1]),
            ("gelu", F.gelu, FLOATS[:2]),
            ("gelu_tanh", partial(F.gelu, approximate="tanh"), FLOATS[:1]),
            ("silu", F.silu, FLOATS[:1]),
            ("tanh", torch.tanh, FLOATS[:1]),
            ("hardswish", F.hardswish, FLOATS[:1]),
            ("leaky_relu", F.leaky_relu, FLOATS[:1]),
            ("elementwise", lambda y: torch.where(y > 0, y * 2, y.abs().sqrt()) / 3 - y.clamp(-0.5, 0.5), FLOATS[:1]),
        )
    ),
    Row("truths", linear(lambda y: torch.where((y * 2).bool(), y, 1.0) * (y > 0).to(y.dtype)), LINEAR, (1, 1)),
    Row("residual", lambda x, w, r: r + F.linear(x, w), ((2, 3, 8), (12, 8), (2, 3, 12))),
    Row("row_factor", lambda x, w, r: r * F.linear(x, w), ((2, 3, 8), (12, 8), (2, 3, 1))),
    Row("number", lambda x, w, s: s * (x @ w), ((5, 8), (8, 12), (1,))),
    Row("two_readers", lambda x, w, b: (y := F.linear(x, w, b)) + F.gelu(y), LINEAR),
    Row("two_outputs", lambda x, w, b: ((y := F.linear(x, w, b)), y * 2), LINEAR, (1, 1)),
    Row("transposed", lambda x, w, b: x.mT @ w + b, ((8, 5), (8, 12), (12,))),
    Row("strided", lambda x, w: x[:, ::2] @ w, ((5, 16), (8, 12)), (1, 1)),
    Row("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), ((5, 12), (5, 8), (8, 12))),
    Row("batch", lambda a, b: F.relu(a @ b) + 1, ((2, 3, 5, 8), (2, 3, 8, 6)), types=FLOATS[:2]),
    Row("batch_transposed", lambda a, b, r: a @ b.mT * r, ((4, 5, 8), (4, 6, 8), (4, 5, 6))),
    Row("one_row", lambda x, w, b: F.linear(x, w, b), ((1, 8), (12, 8), (12,))),
    Row("glu", lambda x, g, u: F.silu(x @ g) * (x @ u), ((5, 8), (8, 12), (8, 12))),
    Row("glu_up_first", lambda x, g, u: F.linear(x, u) * F.gelu(F.linear(x, g)), ((2, 5, 8), (12, 8), (12, 8))),
    # What computes the left matrix element by element is done where it is packed; the rest is means.
    Row("layer_norm", lambda x, w, g, b: F.linear(F.layer_norm(x, (8,), g, b), w), NORMED, (1, 3)),
    # Only for the means is it widened apart.
    Row(
        "layer_norm_narrow",
        lambda x, w, g, b: F.linear(F.layer_norm(x, (8,), g, b), w),
        NORMED,
        (1, 4),
        types=FLOATS[1:],
    ),
    Row("rms_norm", lambda x, w, g, b: F.relu(F.linear(x * x.square().mean(-1, True).rsqrt() * g, w)), NORMED, (1, 3)),
    Row("normed_glu", lambda x, w, g, b: F.silu(F.linear(y := x * g + b, w)) * F.linear(y, w + 1), NORMED, (1, 1)),
    Row("product_of_matrices", lambda x, y, w: (x * y[:, :8]) @ w, ((5, 8), (5, 9), (8, 6)), (1, 0)),
    Row("narrowed", lambda x, w: x.to(torch.bfloat16) @ w.to(torch.bfloat16), ((5, 8), (8, 6)), (1, 1), steps=2**17),
    # What something else reads too is in memory.
    Row("norm_of_two_readers", lambda x, w, g, b: F.linear(y := x * g + b, w) + y.sum(), NORMED, (1, 3)),
    Row("attention", F.scaled_dot_product_attention, HEADS, types=FLOATS[:2]),
    Row(
        "attention_heads_apart",
        lambda x: F.scaled_dot_product_attention(*(x.view(1, 7, 3, 8).transpose(1, 2),) * 3),
        ((7, 24),),
    ),
    Row("attention_causal", partial(F.scaled_dot_product_attention, is_causal=True), (HEADS[0],) * 3),
    Row("attention_mask", F.scaled_dot_product_attention, (*HEADS, (2, 1, 1, 9))),
    Row("attention_flat_mask", F.scaled_dot_product_attention, (*HEADS, (7, 9))),
    # No copy of keys and values for each head of queries is made.
    Row(
        "attention_repeated",
        lambda q, k, v: F.scaled_dot_product_attention(q, *(repeated(x, 3) for x in (k, v))),
        ((2, 6, 7, 8), (2, 2, 9, 8), (2, 2, 9, 8)),
        types=FLOATS[:2],
    ),
    Row(
        "convolution",
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1, stride=2)),
        IMAGES,
        (1, 2),
        types=FLOATS[:2],
        fewer=True,
    ),
    Row("convolution_residual", lambda x, w, r: F.silu(r + F.conv2d(x, w)), (*IMAGES[:2], (2, 8, 4, 3)), (1, 3)),
    Row("convolution_flat", lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2).flatten(1), IMAGES[:2], (1, 3)),
    Row(
        "convolution_of_sequences",
        lambda x, w, r: F.relu(r + F.conv1d(x, w, padding=1, stride=2)),
        ((2, 4, 9), (8, 4, 3), (2, 8, 5)),
        (1, 3),
    ),
    Row("convolution_one_image", lambda x, w: F.conv2d(x[0], w), IMAGES[:2], (1, 2)),
    Row("depthwise", lambda x, w: F.conv2d(x, w, groups=4, dilation=2), ((1, 4, 6, 6), (4, 1, 3, 3)), kernels=(1, 2)),
    # Not ours: integers, and what is no product.
    Row("integers", lambda x, w: (x * 8).to(torch.int32) @ (w * 8).to(torch.int32), ((4, 8), (8, 6)), (0, 5)),
]


def rewritten(function: Callable[..., Any], graphs: list[Any], *, timed: bool = False) -> Callable[..., Any]:
    """The function compiled by torch.compile up to the rewritten graph, which then runs op by op."""
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
    from torch._functorch.aot_autograd import make_boxed_func  # pyright: ignore[reportMissingImports]

    def compiler(graph_module: Any, _inputs: Any) -> Any:
        backend.rewrite(graph_module, timed=timed)
        graphs.append(graph_module)
        return make_boxed_func(graph_module.forward)

    with_ours = aot_autograd(fw_compiler=compiler, decompositions=backend.decompositions())
    return torch.compile(function, backend=with_ours, fullgraph=True)


def drawn(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Any]:
    """Tensors whose products with one another have elements of at most about 1: errors of sums are not amplified."""
    torch.manual_seed(0)
    return [((torch.rand(shape, dtype=torch.float64) - 0.5) * 0.7).to(dtype) for shape in shapes]


def computes(target: Any) -> bool:
    """Whether an op computes, and does not only name elements or make room."""
    names = (
        "view",
        "reshape",
        "permute",
        "select",
        "getitem",
        "new_empty_strided",
        "copy",
        "squeeze",
        "expand",
        "slice",
        "sym_",
    )
    return not any(each in str(target) for each in names)


def check(row: Row, dtype: Any) -> None:
    """One row in one type: the numbers, strides, and what is left of the graph."""
    torch._dynamo.reset()
    graphs: list[Any] = []
    inputs = drawn(row.shapes, dtype)
    exact = row.function(*(each.double() for each in inputs))
    eager = row.function(*inputs)
    with torch.no_grad():
        got = rewritten(row.function, graphs)(*inputs)
    each = zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, eager, exact)), strict=True)
    for ours, theirs, wanted in each:
        assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        bound = row.steps * UNITS[dtype] * max(1, wanted.abs().max()) if dtype in UNITS else 0
        assert (ours.double() - wanted).abs().max() <= bound, (ours.double() - wanted).abs().max() / UNITS[dtype]
    targets = [node.target for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    kernels = sum("tilewright" in str(each) for each in targets)
    others = [each for each in targets if "tilewright" not in str(each) and computes(each)]
    ours, left = row.kernels
    assert kernels == ours, (kernels, others)
    assert len(others) == left or (row.fewer and len(others) < left), (kernels, others)


@case
def rows() -> None:
    failures = []
    for row in ROWS:
        for dtype in row.types:
            try:
                check(row, dtype)
            except Exception:
                failures.append(f"{row.name} {dtype}: {traceback.format_exc()}")
    assert not failures, "\n".join(failures)


@case
def gradients() -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    inputs = [each.requires_grad_() for each in drawn(LINEAR, torch.float32)]
    rewritten(linear(F.gelu), graphs)(*inputs).square().sum().backward()
    exact = [each.detach().double().requires_grad_() for each in inputs]
    linear(F.gelu)(*exact).square().sum().backward()
    for ours, wanted in zip(inputs, exact, strict=True):
        assert (ours.grad - wanted.grad).abs().max() <= 100 * UNITS[torch.float32] * wanted.grad.abs().max()
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert len(graphs) == 2
    assert targets.count("tilewright.call.default") == 3
    assert not any("mm" in each for each in targets)


@case
def dynamic_rows_compile_once() -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    compiled = rewritten(linear(F.gelu), graphs)
    _, w, b = drawn(LINEAR, torch.float32)
    for rows in (3, 5, 64):
        x = torch.rand(2, rows, 8)
        torch._dynamo.mark_dynamic(x, 1)
        with torch.no_grad():
            assert torch.allclose(compiled(x, w, b), linear(F.gelu)(x, w, b), atol=1e-6)
    assert len(graphs) == 1


@case
def frozen_parameters_follow_changes() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8)
    )
    model[1].running_mean.normal_()
    model.eval()
    x = torch.rand(2, 3, 4, 4)
    compiled = torch.compile(model, backend="tilewright", options={"freezing": True, "timed": False})
    messages = logged()
    with torch.no_grad():
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
        assert ["packed" in each for each in messages] == [True, True], messages
        model[0].weight.mul_(2)
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
        model[4].bias.data = torch.ones(8)
        assert torch.allclose(compiled(x), model(x), atol=1e-5)


class Attention(nn.Module):
    """Queries, keys and values by a product each, and an activation that reads the same."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(24, heads * 8, bias=bias) for heads in (4, 2, 2))
        self.gate = nn.Linear(24, 32, bias=bias)

    def forward(self, x: Any) -> Any:
        q, k, v = (each(x).view(2, 7, -1, 8).transpose(1, 2) for each in (self.q, self.k, self.v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return seen.transpose(1, 2).reshape(2, 7, 32) * F.silu(self.gate(x))


@case
def products_of_one_tensor_are_joined() -> None:
    for bias in (True, False):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x, messages = Attention(bias).eval(), torch.rand(2, 7, 24), logged()
        compiled = torch.compile(model, backend="tilewright", options={"freezing": True, "timed": False})
        with torch.no_grad():
            assert torch.allclose(compiled(x), model(x), atol=1e-5)
        assert len(messages) == 3, messages
        assert sum("14x64x24" in each and "packed" in each for each in messages) == 1, messages


@case
def quantized_products_of_one_tensor_are_joined() -> None:
    for bias in (True, False):
        torch._dynamo.reset()
        torch.manual_seed(0)
        graphs: list[Any] = []
        model, x = optimize(Attention(bias).eval(), "i8", attention=False), torch.rand(2, 7, 24)
        with torch.no_grad():
            found, expected = rewritten(model, graphs)(x), model(x)
        # The weights lie one after another, and what they are joined to has the same bits.
        assert torch.allclose(found, expected, atol=1e-6)
        targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
        assert targets.count("tilewright.linears_quantized.default") == 1, targets
        assert not any("linear_quantized" in each for each in targets), targets
        codes = [each._tilewright.codes for each in (model.q, model.k, model.v, model.gate)]
        assert all(a.data_ptr() + a.numel() == b.data_ptr() for a, b in pairwise(codes))


@case
def attention_of_single_ops_is_one_kernel() -> None:
    # Inductor's patterns make them one op, before kernels are sought.
    torch._dynamo.reset()
    messages, (q, k, v) = logged(), drawn(HEADS, torch.float32)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v

    with torch.no_grad():
        got = torch.compile(attention, backend="tilewright", options={"timed": False})(q, k, v)
    assert torch.allclose(got, attention(q, k, v), atol=1e-6)
    assert [each.split(": ")[1] for each in messages] == ["attention 2 times 3 heads of 7x9x8 f32"], messages


@case
def constants_are_no_key_of_inductors_cache() -> None:
    lists, tolist = [], torch.Tensor.tolist

    def noted(tensor: Any) -> Any:
        lists.append(tensor.numel())
        return tolist(tensor)

    # The second model takes the graph of the first one out of the cache, and has its own weights.
    for seed in range(2):
        torch._dynamo.reset()
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(40, 56), nn.LayerNorm(56), nn.Linear(56, 24)).eval()
        x = torch.rand(3, 40)
        compiled = torch.compile(model, backend="tilewright", options={"freezing": True, "timed": False})
        torch.Tensor.tolist = noted
        try:
            with torch.no_grad():
                assert torch.allclose(compiled(x), model(x), atol=1e-5)
        finally:
            torch.Tensor.tolist = tolist
    assert max(lists, default=0) < 40, lists
    assert torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"] > 0


def logged() -> list[str]:
    """What is logged from now on."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(f"{record.levelname} {record.getMessage()}")
    log = logging.getLogger("tilewright")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    return messages


@case
def what_is_slower_stays_with_torch() -> None:
    from tilewright.torch.inductor import timing

    def model(x: Any, w: Any, b: Any, q: Any, image: Any, filters: Any) -> Any:
        return F.relu(F.linear(x, w, b)), F.scaled_dot_product_attention(q, q, q), F.conv2d(image, filters)

    inputs = [*drawn(LINEAR, torch.float32), *drawn((HEADS[0], *IMAGES[:2]), torch.float32)]
    messages, kept = logged(), timing.MOST
    # The product is tried once more without what follows it.
    for most, outcome, tried in ((0.0, "times as fast", 4), (float("inf"), "", 3)):
        torch._dynamo.reset()
        messages.clear()
        timing.MOST = most
        try:
            with torch.no_grad():
                got = rewritten(model, [], timed=True)(*inputs)
        finally:
            timing.MOST = kept
        assert len(messages) == tried, messages
        assert all(("stays torch's" in each) == bool(outcome) and outcome in each for each in messages), messages
        for ours, theirs in zip(got, model(*inputs), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


@case
def a_convolution_takes_the_layout_that_is_fastest() -> None:
    from tilewright.torch.inductor import timing

    def model(x: Any, w: Any, b: Any, seen: Any, filters: Any) -> Any:
        return F.relu(F.conv2d(x, w, b)), F.conv1d(seen, filters, groups=2), F.max_pool2d(F.conv2d(x, w), 2)

    inputs, messages, graphs = drawn((*IMAGES, (2, 4, 9), (6, 2, 3)), torch.float32), logged(), []
    torch._dynamo.reset()
    kept, timing.ratio = timing.ratio, lambda call, threads: 0.5 if call.spec.layout == "nchw" else 0.9
    try:
        with torch.no_grad():
            got = rewritten(model, graphs, timed=True)(*inputs)
    finally:
        timing.ratio = kept
    for ours, theirs in zip(got, model(*inputs), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
    # What reads another op's images in memory of its own order would be slower behind channels first.
    assert [("nchw" in each, "nhwc" in each) for each in messages] == [(True, False), (True, False), (False, True)], (
        messages
    )


def runs_as_said(model: Any, inputs: Sequence[Any], seconds: Sequence[list[float]], said: str | None) -> None:
    """Checks that a graph whose ways take so long, asked for in turn, is run in the way that the log then says; None: with kernels."""
    from tilewright.torch.inductor import timing

    messages, kept, left = logged(), timing.in_turn, iter(seconds)
    torch._dynamo.reset()
    timing._ratio.cache_clear()
    timing.in_turn = lambda calls, _: ([call() for call in calls], next(left))[1]
    try:
        compiled = torch.compile(model, backend="tilewright")
        with torch.no_grad():
            for _ in range(3):
                assert torch.allclose(compiled(*inputs), model(*inputs), atol=1e-5)
    finally:
        timing.in_turn = kept
    assert next(left, None) is None
    assert len(messages) == 1 + bool(said), messages
    assert said is None or said in messages[1], messages


PRODUCT, IMAGE = (lambda x, w: x @ w), (lambda x, w: torch.conv2d(x, w))
ALIKE = {PRODUCT: ((5, 8), (8, 12)), IMAGE: ((1, 4, 6, 6), (8, 4, 3, 3))}
"""Small graphs, and the shapes of their inputs."""


@case
def a_small_graph_is_run_in_the_fastest_way() -> None:
    ways = {
        # What each way takes: with kernels, op by op, and by Inductor alone.
        (PRODUCT, (2.0, 9.0)): None,
        (PRODUCT, (2.0, 1.0), (2.0, 1.0, 3.0)): "op by op, 2.00 times",
        (PRODUCT, (2.0, 2.5), (2.0, 2.5, 1.0)): "by Inductor alone, 2.00 times",
        (PRODUCT, (2.0, 2.5), (2.0, 2.5, 1.99)): None,
        # Ops by themselves leave images in an order that Inductor changes.
        (IMAGE, (2.0, 9.0), (2.0, 9.0, 1.0)): "by Inductor alone, 2.00 times",
    }
    for (model, *each), said in ways.items():
        # The first are those of kernels beside their ops.
        kernels = [[1.0, 2.0]] * (1 if model is PRODUCT else 2)
        runs_as_said(model, drawn(ALIKE[model], torch.float32), [*kernels, *map(list, each)], said)


@case
def of_long_graphs_those_with_convolutions_are_tried_op_by_op() -> None:
    from tilewright.torch.inductor import choice

    kept, choice._LONG = choice._LONG, 0
    try:
        # Those of kernels beside their ops come first; Inductor alone is not tried.
        for model, seconds, said in (
            (PRODUCT, [[1.0, 2.0]], None),
            (IMAGE, [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]], "op by op, 2.00 times"),
            (IMAGE, [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], None),
        ):
            runs_as_said(model, drawn(ALIKE[model], torch.float32), seconds, said)
    finally:
        choice._LONG = kept


@case
def a_graph_that_changes_an_input_runs_once() -> None:
    def model(x: Any, w: Any) -> Any:
        x.add_(1)
        return x @ w

    torch._dynamo.reset()
    x, w = drawn(((5, 8), (8, 12)), torch.float32)
    before = x.clone()
    with torch.no_grad():
        got = torch.compile(model, backend="tilewright")(x, w)
    assert torch.equal(x, before + 1)
    assert torch.allclose(got, x @ w, atol=1e-6)


@case
def results_that_are_views_stay_views() -> None:
    def model(x: Any, w: Any) -> Any:
        y = x @ w
        return x.t(), y, y[1:]

    torch._dynamo.reset()
    x, w = drawn(((5, 8), (8, 12)), torch.float32)
    with torch.no_grad():
        compiled = torch.compile(model, backend="tilewright")
        for _ in range(2):
            of_x, y, part = compiled(x, w)
            assert of_x.data_ptr() == x.data_ptr()
            assert part.data_ptr() == y[1:].data_ptr()
            assert torch.allclose(y, x @ w, atol=1e-6)


@case
def autocast_reaches_no_kernel() -> None:
    torch._dynamo.reset()
    x, w = drawn(((5, 8), (8, 12)), torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        compiled = torch.compile(lambda x, w: torch.sin(x @ w), backend="tilewright")
        assert compiled(x, w).dtype == torch.bfloat16
        assert torch.allclose(compiled(x, w), torch.sin(x @ w), atol=2e-2)


@case
def an_operand_with_shared_elements_is_timed() -> None:
    torch._dynamo.reset()
    x, w = drawn(((1, 8), (8, 12)), torch.float32)
    with torch.no_grad():
        assert torch.allclose(rewritten(torch.mm, [], timed=True)(x.expand(6, 8), w), x.expand(6, 8) @ w)


@case
def a_failure_is_named_and_torch_computes() -> None:
    from tilewright.errors import LoweringError
    from tilewright.torch.inductor import kernels

    torch._dynamo.reset()
    messages = logged()

    def fails(spec: Any, threads: int) -> Any:
        raise LoweringError(f"{spec} on {threads} threads", where="test")

    compiles, kernels.compiled = kernels.compiled, fails
    try:
        inputs, graphs = drawn(LINEAR, torch.float32), []
        with torch.no_grad():
            got = rewritten(linear(F.relu), graphs)(*inputs)
    finally:
        kernels.compiled = compiles
    assert torch.equal(got, linear(F.relu)(*inputs))
    assert messages
    assert messages[0].startswith("WARNING relu: 6x12x8 f32 nt [fused] stays torch's: ")


if __name__ == "__main__":
    run()
