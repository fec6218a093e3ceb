# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of the ops of `tilewright.torch`, and what they do under vmap and autocast. `test_frameworks` runs it, where torch is."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import tilewright as tw
from framework_cases import case, run

torch: Any = import_module("torch")
ours: Any = import_module("tilewright.torch")
ops: Any = torch.ops.tilewright
F: Any = torch.nn.functional
torch.set_num_threads(1)  # Threads that wait for work would cost more than it.
opcheck: Any = torch.library.opcheck
gradcheck: Any = torch.autograd.gradcheck
same: Any = torch.testing.assert_close
LOOSE = {"rtol": 1e-3, "atol": 1e-4}
"""Sums of some dozen numbers in f32."""


QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")
"""What opcheck tries with ops whose gradients are traced as those of others are; the rest takes a second."""


def double(*shape: int, gradient: bool = True) -> Any:
    return (torch.rand(*shape, dtype=torch.float64) - 0.5).requires_grad_(gradient)


def single(*shape: int, gradient: bool = True) -> Any:
    return (torch.rand(*shape) - 0.5).requires_grad_(gradient)


def gradients(function: Callable[..., Any], *tensors: Any) -> Any:
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


@case
def opcheck_is_green() -> None:
    x, w = double(2, 3, 4), double(5, 4)
    opcheck(ops.matmul.default, (x, double(4, 5)), test_utils=QUICK)
    opcheck(ops.linear.default, (x, w, double(5), double(2, 3, 5), "gelu"))
    opcheck(ops.linear_glu.default, (x, w, double(5, 4)), test_utils=QUICK)
    images, filters = double(2, 4, 6, 5), double(6, 2, 3, 3)
    last = images.detach().to(memory_format=torch.channels_last)
    opcheck(ops.conv2d.default, (last, filters, double(6), None, [2, 2], [1, 1], [1, 1], 2, "gelu"))
    q, k, v = single(2, 4, 5, 8), single(2, 2, 6, 8), single(2, 2, 6, 8)
    opcheck(ops.attention.default, (q, k, v, single(5, 6), False, 0.3), **LOOSE)
    made, rows = ours.quantize(torch.rand(8, 64) - 0.5, "i4", 32), single(3, 64)
    given = (rows, made.codes, made.scales, None, None, None, "i4", 32, "none", "i8")
    opcheck(ops.linear_quantized.default, given, test_utils=QUICK)


@case
def opcheck_of_calls_is_green() -> None:
    name = ours.register(tw.compile(tw.MatmulSpec(None, 5, 4, a="f64")))
    a, b = double(3, 4, gradient=False), double(4, 5, gradient=False)
    opcheck(ops.call.default, (name, [a, b]))
    opcheck(ops.call_many.default, (name, [a, b]))
    opcheck(ops.call_out.default, (name, [a, b], [torch.zeros(3, 5, dtype=torch.float64)]))
    refused = ""
    try:
        ours.call(name, a.requires_grad_(), b)
    except tw.TilewrightError as error:
        refused = str(error)
    assert "an operand requires a gradient, and kernels have none" in refused


@case
def products_have_right_gradients() -> None:
    assert gradcheck(ours.matmul, (double(2, 3, 4), double(4, 5)))
    assert gradcheck(ours.matmul, (double(2, 3, 4), double(2, 4, 5)))
    assert gradcheck(ours.matmul, (double(4), double(4, 5)))
    assert torch.autograd.gradgradcheck(ours.matmul, (double(2, 3), double(3, 2)))
    complex_ = [torch.rand(*shape, dtype=torch.complex128, requires_grad=True) for shape in ((3, 2), (2, 2))]
    assert gradcheck(ours.matmul, complex_)


@case
def layers_have_right_gradients() -> None:
    x, w, bias, residual = double(2, 3), double(4, 3), double(4), double(2, 4)
    for name in ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish"):
        assert gradcheck(lambda *given, name=name: ops.linear(*given, name), (x, w, bias, residual))
    assert gradcheck(lambda x, w, b, r: ours.linear(x, w, b, residual=r, activation="silu"), (x, w, bias, residual))
    assert torch.autograd.gradgradcheck(lambda *given: ops.linear(*given, activation="gelu"), (x, w, bias))
    for name in ("silu", "gelu", "sigmoid", "relu", "tanh"):
        assert gradcheck(lambda *given, name=name: ours.linear_glu(*given, name), (x, w, double(4, 3)))


@case
def operators_have_right_gradients() -> None:
    options = {"stride": 2, "padding": 1, "groups": 2, "activation": "silu"}
    given = (double(1, 2, 4, 4), double(2, 1, 3, 3), double(2))
    assert gradcheck(lambda x, w, b: ours.conv2d(x, w, b, **options), given)
    assert gradcheck(lambda *given: ops.conv2d(*given, None, [2, 2], [1, 1], [1, 1], 2, "gelu"), given)
    attend, theirs = ours.scaled_dot_product_attention, F.scaled_dot_product_attention
    q, k, v = single(2, 4, 5, 8), single(2, 2, 6, 8), single(2, 2, 6, 8)
    for causal in (False, True):
        named = {"enable_gqa": True, "is_causal": causal}
        found = gradients(lambda *given, named=named: attend(*given, **named), q, k, v)
        same(found, gradients(lambda *given, named=named: theirs(*given, **named), q, k, v), **LOOSE)
    whole = (q, single(2, 4, 6, 8), single(2, 4, 6, 8), single(5, 6))
    same(gradients(attend, *whole), gradients(theirs, *whole), **LOOSE)
    made, rows = ours.quantize(torch.rand(8, 64) - 0.5, "i4", 32), single(3, 64)
    found = gradients(lambda x: ours.linear_quantized(x, made, activation="gelu"), rows)
    same(found, gradients(lambda x: F.gelu(F.linear(x, made.floats())), rows), **LOOSE)


@case
def vmap_makes_rows_of_batches() -> None:
    a, b = double(6, 3, 4, gradient=False), double(6, 4, 5, gradient=False)
    w, bias = double(6, 5, 4, gradient=False), double(6, 5, gradient=False)
    for axes, given in (
        ((0, 0), (a, b)),
        ((0, None), (a, b[0])),
        ((None, 0), (a[0], b)),
        ((2, 1), (a.movedim(0, 2), b.movedim(0, 1))),
    ):
        same(torch.vmap(ours.matmul, axes)(*given), torch.vmap(torch.matmul, axes)(*given))

    def layer(x: Any, w: Any, bias: Any) -> Any:
        return ours.linear(x, w, bias, activation="gelu")

    def theirs(x: Any, w: Any, bias: Any) -> Any:
        return F.gelu(F.linear(x, w, bias))

    for axes in ((0, None, None), (0, 0, 0), (None, 0, None), (0, None, 0)):
        given = [each if axis == 0 else each[0] for each, axis in zip((a, w, bias), axes, strict=True)]
        same(torch.vmap(layer, axes)(*given), torch.vmap(theirs, axes)(*given))
    gate = torch.vmap(ours.linear_glu, (0, 0, None))(a, w, w[0])
    same(gate, F.silu(a @ w.mT) * (a @ w[0].T))
    per_sample = [
        torch.vmap(torch.func.grad(lambda w, x, own=own: own(x, w, bias[0]).sum()), (None, 0))(w[0], a)
        for own in (layer, theirs)
    ]
    same(*per_sample)


@case
def vmap_of_operators() -> None:
    attend, theirs = ours.scaled_dot_product_attention, F.scaled_dot_product_attention
    q, k = single(3, 2, 4, 5, 8, gradient=False), single(3, 2, 4, 6, 8, gradient=False)
    mask = torch.rand(3, 5, 6) < 0.8
    for axes, given in (((0, 0, 0, 0), (q, k, k, mask)), ((0, None, None, None), (q, k[0], k[0], mask[0]))):
        expected = torch.stack(
            [theirs(*(g if x is None else g[i] for g, x in zip(given, axes, strict=True))) for i in range(3)]
        )
        same(torch.vmap(attend, axes)(*given), expected, **LOOSE)
    x, w = double(3, 2, 4, 6, 5, gradient=False), double(3, 6, 4, 3, 3, gradient=False)
    for axes, given in (((0, None), (x, w[0])), ((0, 0), (x, w)), ((None, 0), (x[0], w))):
        same(torch.vmap(ours.conv2d, axes)(*given), torch.vmap(F.conv2d, axes)(*given))


@case
def autocast_casts_what_is_multiplied() -> None:
    x, w = single(3, 4), single(5, 4, gradient=False)
    with torch.autocast("cpu"):
        made = ours.linear(x, w)
        assert made.dtype == ours.matmul(x.detach(), w.T).dtype == torch.bfloat16
        assert ours.matmul(x.double().detach(), w.double().T).dtype == torch.float64
    made.sum().backward()
    assert x.grad.dtype == torch.float32
    same(x.grad, w.sum(0).expand(3, 4), rtol=0.02, atol=0.02)


@case
def a_compiled_step_of_training() -> None:
    layer = torch.nn.Linear(4, 5)

    def step(x: Any) -> Any:
        return ours.linear(x, layer.weight, layer.bias, activation="gelu").sum()

    x = torch.rand(3, 4)
    expected = torch.autograd.grad(step(x), layer.weight)
    same(torch.autograd.grad(torch.compile(step, backend="aot_eager", fullgraph=True)(x), layer.weight), expected)


if __name__ == "__main__":
    run()
