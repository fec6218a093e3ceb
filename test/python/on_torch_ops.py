# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of `tilewright.torch`: a program for the environment that has torch. `test_frameworks` runs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import tilewright as tw
from framework_cases import case, run

torch: Any = import_module("torch")
ours: Any = import_module("tilewright.torch")
F: Any = torch.nn.functional
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
    except RuntimeError as error:
        said = str(error)
    assert said is not None, "not refused"
    assert re.search(words, said), said


@case
def products_of_any_shape() -> None:
    for a, b in (
        ((5, 7), (7, 3)),
        ((2, 5, 7), (7, 3)),
        ((2, 5, 7), (2, 7, 3)),
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
    names = [name for name in registry.names() if "x5x24 " in name]
    assert [name.split("x")[0] for name in names] == [*(f"product {rows}" for rows in range(1, 5)), "product ?"]


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
