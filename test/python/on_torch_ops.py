# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of `tilewright.torch`: a program for the environment that has torch. `test_frameworks` runs it."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import tilewright as tw
from framework_cases import case, run

torch: Any = import_module("torch")
ours: Any = import_module("tilewright.torch")
laid: Any = import_module("tilewright.torch.quantized").laid
F: Any = torch.nn.functional
torch.set_num_threads(1)  # Threads that wait for work would cost more than it.
X, W, BIAS = torch.rand(2, 3, 16) - 0.5, torch.rand(8, 16) - 0.5, torch.rand(8) - 0.5


def near(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Checks a result of few sums of numbers of about 1, and that it is as torch's own in shape and type."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def says(words: str, call: Callable[[], object]) -> None:
    """Checks that a call raises an error that says this."""
    said = None
    try:
        call()
    except (RuntimeError, tw.TilewrightError) as error:
        said = str(error)
    assert said is not None, "not refused"
    assert re.search(words, said), said


@case
def products_of_any_shape() -> None:
    for a, b in (
        ((2, 5, 7), (7, 3)),
        ((2, 1, 5, 7), (3, 7, 4)),
        ((7,), (7, 3)),
        ((2, 5, 7), (7,)),
        ((0, 7), (7, 3)),
        ((5, 0), (0, 3)),
        ((1, 7), (7, 1)),
    ):
        left, right = torch.rand(a), torch.rand(b)
        near(ours.matmul(left, right), left @ right)


@case
def products_of_any_strides() -> None:
    a, b = torch.rand(6, 5).T, torch.rand(9, 6).T
    for left, right in ((a, b), (a[::2], b), (a, b[:, ::3]), (a.expand(2, 5, 6), b)):
        near(ours.matmul(left, right), left @ right)
    q, k = (torch.rand(2, 5, 3, 8).transpose(1, 2) for _ in range(2))
    near(ours.matmul(q, k.transpose(-1, -2)), q @ k.transpose(-1, -2))


@case
def linear_with_all_that_is_fused() -> None:
    residual = torch.rand(2, 3, 8)
    near(ours.linear(X, W), F.linear(X, W))
    near(ours.linear(X[0, 0], W, BIAS), F.linear(X[0, 0], W, BIAS))
    near(ours.linear(X, W.T.contiguous().T, BIAS), F.linear(X, W, BIAS))
    near(ours.linear(X, W, BIAS, activation="gelu", residual=residual), F.gelu(F.linear(X, W, BIAS)) + residual, 1e-4)
    near(ours.linear_glu(X, W, W + 1), F.silu(X @ W.T) * (X @ (W + 1).T), 1e-4)
    near(ours.linear_glu(X, W.T.contiguous().T, W + 1), F.silu(X @ W.T) * (X @ (W + 1).T), 1e-4)


@case
def types() -> None:
    for type_, tolerance in ((torch.bfloat16, 2e-2), (torch.float16, 2e-3), (torch.float64, 1e-12)):
        x, w, bias = X.to(type_), W.to(type_), BIAS.to(type_)
        near(ours.linear(x, w, bias), F.linear(x, w, bias), tolerance)
    whole = torch.randint(-9, 9, (4, 6), dtype=torch.int8)
    near(ours.matmul(whole, whole.T), whole.int() @ whole.T.int())


@case
def many_shapes_do_not_mean_many_kernels() -> None:
    registry = import_module("tilewright.torch.registry")
    w = torch.rand(5, 24)
    for rows in range(1, 12):
        x = torch.rand(rows, 24)
        near(ours.linear(x, w), F.linear(x, w))
    names = [name for name in registry.names() if " n=5 k=24 " in name]
    assert [name.split()[1] for name in names] == [*(f"m={rows}" for rows in range(1, 5)), "m=?"]


@case
def bad_operands_are_refused() -> None:
    says("whose K differs", lambda: ours.matmul(torch.ones(2, 3), torch.ones(4, 5)))
    says("float32 and float64; expected the same type", lambda: ours.linear(X, W.double()))
    says(r"bias has shape \(3,\); expected \(8,\)", lambda: ours.linear(X, W, torch.ones(3)))
    says("no activation is called 'foo'; expected one of none, gelu", lambda: ours.linear(X, W, activation="foo"))
    says('no kernel of tilewright is called "nope"', lambda: ours.call("nope", X))


@case
def a_kernel_is_called_by_its_name() -> None:
    kernel = tw.compile(tw.MatmulSpec(None, 8, 16, layout="nt", b_packed=True))
    name, packed = ours.register(kernel), ours.pack(kernel, W)
    assert ours.register(kernel) == name
    near(ours.call(name, X[0], packed), F.linear(X[0], W))
    out = torch.zeros(3, 20)
    torch.ops.tilewright.call_out(name, [X[0], packed], [out[:, 4:12]])
    near(out[:, 4:12], F.linear(X[0], W))
    assert not out[:, :4].any()
    says("operand b: is no packed matrix", lambda: ours.call(name, X[0], W))
    says("operand b: is no packed matrix", lambda: ours.call(name, X[0], packed[:-1]))
    says(r"operand a: has shape \(3, 15\); expected \(3, 16\)", lambda: ours.call(name, X[0, :, 1:], packed))
    says("takes 2 operands; there are 1", lambda: ours.call(name, X[0]))
    square = ours.register(tw.compile(tw.MatmulSpec(4, 4, 4)))
    a = torch.rand(4, 4)
    says("out: shares memory with b", lambda: torch.ops.tilewright.call_out(square, [torch.rand(4, 4), a], [a]))


@case
def a_module_is_called_by_its_name() -> None:
    text = """
    func.func @both(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<4x5xf32>
      %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32>
      %c = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x5xf32>) outs(%filled : tensor<4x5xf32>) -> tensor<4x5xf32>
      %d = linalg.add ins(%c, %c : tensor<4x5xf32>, tensor<4x5xf32>) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32>
      return %c, %d : tensor<4x5xf32>, tensor<4x5xf32>
    }
    """
    name = ours.register(tw.compile_module(text), "both")
    a, b = torch.rand(4, 6), torch.rand(6, 5)
    c, d = ours.call_many(name, a, b)
    near(c, a @ b)
    near(d, 2 * (a @ b))
    says("has 2 results; expected at most 1", lambda: ours.call(name, a, b))


@case
def a_result_lies_in_the_order_that_is_asked_for() -> None:
    in_order = torch.ops.tilewright.call_in_order
    q, k = torch.rand(2, 3, 5, 8), torch.rand(2, 3, 7, 8)
    name = ours.register(tw.compile(tw.AttentionSpec(5, 7, 8, 3, 3, 8, batch=(2,))))
    found = in_order(name, [q, k, k], [0, 2, 1, 3])
    near(found, F.scaled_dot_product_attention(q, k, k))
    assert found.stride() == (120, 8, 24, 1)
    says("each of its 4 axes once", lambda: in_order(name, [q, k, k], [0, 0, 1, 3]))
    says("wrong type or layout", lambda: in_order(name, [q, k, k], [0, 1, 3, 2]))
    product = ours.register(tw.compile(tw.MatmulSpec(5, 6, 8)))
    says("lies in an order of its own", lambda: in_order(product, [q[0, 0], torch.rand(8, 6)], [1, 0]))


@case
def kernels_one_after_the_other() -> None:
    first, second = (ours.register(tw.compile(tw.MatmulSpec(*each))) for each in ((5, 6, 8), (3, 6, 5)))
    a, b, c = torch.rand(5, 8), torch.rand(8, 6), torch.rand(3, 5)
    operand = {"result": False}
    step = {"axes": [], "type": "float32"}
    product = {**step, "kernel": first, "start": 0, "operands": [{**operand, "number": 0}, {**operand, "number": 1}]}
    product |= {"sizes": [5, 6], "strides": [6, 1]}
    view = {"number": 0, "result": True, "offset": 0, "sizes": [5, 6], "strides": [6, 1]}
    last = {**step, "kernel": second, "start": -1, "operands": [{**operand, "number": 2}, view]}
    last |= {"sizes": [3, 6], "strides": [6, 1]}
    chain = {"operands": 3, "bytes": 128, "steps": [product, last], "left": [1]}

    def ran(**changes: Any) -> Any:
        return torch.ops.tilewright.call_chain(json.dumps(chain | changes).replace('"', "`"), [a, b, c])

    near(ran(), c @ (a @ b))
    near(ran(), c @ (a @ b))
    says("takes 2 operands; there are 3", lambda: ran(operands=2, steps=[product], left=[]))
    says("takes operand 2; expected one that is there", lambda: ran(operands=2))
    says("outside of its 64 bytes", lambda: ran(bytes=64))
    says("makes a new tensor that is not left", lambda: ran(left=[]))
    says("result 0 of a chain is left; expected a new tensor", lambda: ran(left=[0, 1]))
    says("takes result 1; expected one", lambda: ran(steps=[product, {**last, "operands": [view | {"number": 1}] * 2}]))
    far = view | {"offset": 1}
    says("reads elements that result 0 does not have", lambda: ran(steps=[product, {**last, "operands": [view, far]}]))
    back = view | {"offset": 29, "strides": [-6, -1]}
    says("a stride below zero", lambda: ran(steps=[product, {**last, "operands": [view, back]}]))
    says("expected a type that torch has", lambda: ran(steps=[product, {**last, "type": "int3"}]))
    says(r"made a tensor of shape \(3, 6\); expected \(6, 3\)", lambda: ran(steps=[product, {**last, "sizes": [6, 3]}]))
    says("no kernel", lambda: ran(steps=[product, {**last, "kernel": "nobody's"}]))
    says("expected", lambda: torch.ops.tilewright.call_chain("{", [a, b, c]))
    more = {**product, "start": -1}
    text = json.dumps(chain | {"bytes": 0, "steps": [more, last], "left": [0, 1]}).replace('"', "`")
    for found, wanted in zip(torch.ops.tilewright.call_chain_many(text, [a, b, c]), (a @ b, c @ (a @ b)), strict=True):
        near(found, wanted)
    says("has 2 results; expected one", lambda: torch.ops.tilewright.call_chain(text, [a, b, c]))


@case
def convolutions_in_both_orders_of_memory() -> None:
    for order in (torch.contiguous_format, torch.channels_last):
        x, w, bias = (torch.rand(2, 4, 9, 8) - 0.5).to(memory_format=order), torch.rand(6, 4, 3, 3) - 0.5, torch.rand(6)
        for options in ({"stride": (2, 1), "padding": (0, 2)}, {"padding": "same", "dilation": 2}):
            found = ours.conv2d(x, w, bias, **options)
            near(found, F.conv2d(x, w, bias, **options))
            assert found.is_contiguous(memory_format=order)
        near(ours.conv2d(x, w[:4, :1], groups=4, padding=1), F.conv2d(x, w[:4, :1], groups=4, padding=1))
    near(ours.conv2d(x[0], w, bias), F.conv2d(x[0], w, bias))
    points = w[:, :, :1, :1]
    near(ours.conv2d(x, points, activation="relu", residual=torch.ones(2, 6, 9, 8)), F.relu(F.conv2d(x, points)) + 1)
    says("expected filters of the images' channels", lambda: ours.conv2d(x, w[:, :3]))
    says("the filter does not fit into the image", lambda: ours.conv2d(x, torch.rand(6, 4, 20, 3)))


@case
def attention_as_torch_has_it() -> None:
    attend, theirs = ours.scaled_dot_product_attention, F.scaled_dot_product_attention
    q, k, v = (torch.rand(2, 4, rows, 8) for rows in (10, 12, 12))
    near(attend(q, k, v, is_causal=True, scale=0.3), theirs(q, k, v, is_causal=True, scale=0.3))
    few = (q, k[:, :2], v[:, :2])
    near(attend(*few, enable_gqa=True), theirs(*few, enable_gqa=True))
    near(attend(q[0, 0], k[0, 0], v[0, 0]), theirs(q[0, 0], k[0, 0], v[0, 0]))
    for mask in (torch.rand(10, 12) < 0.7, torch.rand(2, 1, 1, 12) < 0.7, torch.rand(2, 4, 10, 12)):
        near(attend(q, k, v, mask), theirs(q, k, v, mask))
    half = [each.bfloat16() for each in (q, k, v)]
    near(attend(*half), theirs(*half), 2e-2)
    says("v has shape .*expected the batch, heads and rows of k", lambda: attend(q, k, v[:, :, :3]))
    says("expected one that is broadcast to", lambda: attend(q, k, v, torch.ones(3, 3)))
    says("expected enable_gqa=True", lambda: attend(*few))


@case
def steps_of_a_decoder_share_a_kernel() -> None:
    registry = import_module("tilewright.torch.registry")
    q = torch.rand(2, 1, 8)
    for keys in range(20, 27):
        k, v = torch.rand(2, keys, 8), torch.rand(2, keys, 8)
        near(ours.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
    names = [name for name in registry.names() if name.startswith("attention queries=1 ") and "heads=2 " in name]
    assert [name.split()[2] for name in names] == [*(f"keys={keys}" for keys in range(20, 24)), "keys=?"]


@case
def quantized_weights() -> None:
    w, x = torch.rand(24, 90) - 0.5, torch.rand(2, 90) - 0.5
    for kind, group in (("i8", 0), ("i4", 32), ("u4", 32), ("f8E4M3FN", 0), ("mxf4E2M1FN", 0)):
        made = ours.quantize(w, kind, group, symmetric=not kind.startswith("u"))
        near(ours.linear_quantized(x, made), F.linear(x, made.floats()), 1e-3)
        assert (made.floats() - w).abs().max() < {"i8": 0.003, "i4": 0.04, "u4": 0.04}.get(kind, 0.13)
    made = ours.quantize(w, "i4", 32, precision="i8")
    exact, found = F.linear(x, made.floats()), ours.linear_quantized(x, made)
    # Each of 90 elements of x is off by 1/254 of its group's largest, which is below 1/2, at most, and weights are below 1/2.
    assert 1e-5 < (found - exact).abs().max() < 90 / 254 / 4
    says("precision 'i8' for weights of 'f8E4M3FN'", lambda: ours.quantize(w, "f8E4M3FN", precision="i8"))
    made = ours.quantize(w, "i4", 32)
    wrong = ours.QuantizedWeight(made.codes, made.scales[:, 0], None, "i4", 32, 90)
    says(r"scales or zero points has shape \(24,\); expected \(24, 3\)", lambda: ours.linear_quantized(x, wrong))
    says("whose K differs", lambda: ours.linear_quantized(x[:, :80], made))


@case
def several_quantized_weights_are_one_product() -> None:
    x, biases = torch.rand(2, 3, 64) - 0.5, [torch.rand(n) - 0.5 for n in (24, 8, 9)]
    for kind, group, precision in (("i4", 32, "i8"), ("i8", 0, None), ("u4", 32, None), ("mxf4E2M1FN", 0, None)):
        apart = [
            ours.quantize(torch.rand(n, 64) - 0.5, kind, group, symmetric=not kind.startswith("u"), precision=precision)
            for n in (24, 8, 9)
        ]
        (together,) = laid([apart])
        # In another order they do not lie one after another, and are products of their own.
        for weights, given in ((together, biases), (together[::-1], biases[::-1]), (apart, biases)):
            for added in ([], given):
                tensors = [[getattr(each, name) for each in weights] for name in ("codes", "scales", "zeros")]
                lists = [[] if each[0] is None else each for each in tensors]
                first = weights[0]
                found = torch.ops.tilewright.linears_quantized(
                    x, *lists, added, first.element, first.group, precision or "-"
                )
                every = zip(weights, added or [None] * 3, strict=True)
                near(found, torch.cat([ours.linear_quantized(x, *each) for each in every], -1), 1e-6)
    # Enough of them for large pages.
    groups = [[ours.quantize(torch.rand(n, 64), "i8") for n in sizes] for sizes in ((4, 6), (33000, 16))]
    made, large = laid(groups)
    assert large[1].codes.data_ptr() == large[0].codes.data_ptr() + 33000 * 64
    for copies, weights in zip((made, large), groups, strict=True):
        assert all(torch.equal(a.floats(), b.floats()) for a, b in zip(copies, weights, strict=True))
    assert made[1].codes.data_ptr() == made[0].codes.data_ptr() + 4 * 64
    few = (x, [made[0].codes], [made[0].scales, made[1].scales], [], [], "i8", 0, "-")
    says("1 weights, 2 scales, 0 zero points", lambda: torch.ops.tilewright.linears_quantized(*few))


class Small(torch.nn.Module):
    """A convolution, attention and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: Any) -> Any:
        rows = self.conv(x).flatten(2).transpose(1, 2)
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.qkv(rows).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@case
def optimize_is_undone_by_restore() -> None:
    registry = import_module("tilewright.torch.registry")
    model, x = Small(), torch.rand(2, 3, 5, 5)
    expected, names = model(x).detach(), list(model.state_dict())
    for weights, tolerance in (("plain", 1e-5), ("packed", 1e-5)):
        assert ours.optimize(model, weights) is model
        with torch.no_grad():
            near(model(x), expected, tolerance)
            near(copy.deepcopy(model)(x), expected, tolerance)
        assert list(model.state_dict()) == names
        model(x).sum().backward()
        assert model.conv.weight.grad is not None
        ours.restore(model)
        assert type(model.qkv) is torch.nn.Linear
        assert not model._forward_hooks
        assert (model(x) == expected).all()
    assert any(name.startswith("attention queries=25 ") for name in registry.names())
    ours.optimize(model)
    says("it is optimized already", lambda: ours.optimize(model))
    says("it is a int", lambda: ours.optimize(3))
    says("weights are 'i3'; expected one of plain, packed, i4", lambda: ours.optimize(Small(), "i3"))


@case
def packed_weights_follow_changes() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 8)), torch.rand(3, 16)
    with torch.no_grad():
        ours.optimize(model, "packed")(x)
        model[0].weight.mul_(2)
        near(model(x), F.linear(x, model[0].weight, model[0].bias))


@case
def a_library_serves_processes_without_the_compiler() -> None:
    x = torch.rand(3, 16)
    name = ours.register(tw.compile(tw.MatmulSpec(3, 8, 16, layout="nt", epilogue=(tw.relu(),))))
    expected = (ours.linear(x, W, BIAS), ours.call(name, x, W))
    own = [
        each
        for each in import_module("tilewright.torch.registry").names()
        if " m=3 n=8 k=16 " in each and "epilogue=bias:n:f32 " in each
    ]
    with TemporaryDirectory() as folder:
        ours.library(folder, "layers", targets=["host"], kernels=[own[0], name])
        torch.save((x, W, BIAS, expected, name), f"{folder}/tensors.pt")
        native = import_module("tilewright.torch.native").binary()
        program = f"""
import sys
import torch
torch.set_num_threads(1)
torch.ops.load_library({str(native)!r})
x, weight, bias, expected, name = torch.load({folder + "/tensors.pt"!r})
ops = torch.ops.tilewright
assert torch.equal(ops.linear(x, weight, bias), expected[0])
assert torch.equal(ops.call(name, [x, weight]), expected[1])
try:
    ops.linear(x[:2], weight)
except RuntimeError as error:
    assert "no Python to compile one; expected a library that has it" in str(error), error
assert not any(each.startswith("tilewright") for each in sys.modules)
"""
        variables = {**os.environ, "TILEWRIGHT_TORCH_LIBRARIES": f"{folder}/liblayers.so"}
        command = [sys.executable, "-I", "-W", "ignore", "-c", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stderr


@case
def torch_compile_traces_the_ops() -> None:
    kernel = tw.compile(tw.MatmulSpec(None, 8, 16, layout="nt"))
    name = ours.register(kernel)

    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def both(x: Any) -> Any:
        return torch.ops.tilewright.call(name, [x, W]).sin() + ours.linear(x, W, BIAS)

    for rows in (3, 40):
        x = torch.rand(rows, 16)
        near(both(x), (x @ W.T).sin() + F.linear(x, W, BIAS))


if __name__ == "__main__":
    run()
