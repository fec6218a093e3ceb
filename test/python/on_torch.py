# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls on torch's tensors: a program for the environment that has torch. `test_frameworks` runs it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import tilewright as tw
from framework_cases import case, refuses, run

torch: Any = import_module("torch")
KERNEL = tw.compile(tw.MatmulSpec(4, 5, 6))
A, B = torch.rand(4, 6), torch.rand(6, 5)


def close(c: Any, a: Any = A, b: Any = B, tolerance: float = 1e-5) -> bool:
    return type(c) is torch.Tensor and torch.allclose(
        c.double(), a.double() @ b.double(), rtol=tolerance, atol=tolerance
    )


@case
def results_are_tensors() -> None:
    assert close(KERNEL(A, B))
    assert close(KERNEL(A.numpy(), B))
    assert close(KERNEL(A, B.numpy()))
    c = KERNEL(A, B)
    c += 1
    assert c.is_contiguous()
    assert not c.requires_grad


@case
def out_is_written() -> None:
    out = torch.full((4, 5), torch.nan)
    assert KERNEL(A, B, out=out) is out
    assert close(out)
    wide = torch.zeros(4, 9)
    KERNEL(A, B, out=wide[:, 2:7])
    assert close(wide[:, 2:7].contiguous())
    assert not wide[:, :2].any()


@case
def types() -> None:
    for own, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float64, "f64")):
        kernel = tw.compile(tw.MatmulSpec(4, 5, 6, a=name, c="f32" if name != "f64" else "f64"))
        a, b = A.to(own), B.to(own)
        assert close(kernel(a, b), a, b)
    rounded = tw.compile(tw.MatmulSpec(4, 5, 6, a="bf16", c="bf16"))(A.bfloat16(), B.bfloat16())
    assert rounded.dtype == torch.bfloat16
    small = tw.compile(tw.MatmulSpec(4, 5, 6, a="bf16", b="f8E4M3FN", c="f32"))
    b = B.to(torch.float8_e4m3fn)
    assert close(small(A.bfloat16(), b), A.bfloat16(), b)
    whole = tw.compile(tw.MatmulSpec(4, 5, 6, a="u8", b="i8"))
    x, y = torch.randint(0, 255, (4, 6), dtype=torch.uint8), torch.randint(-128, 127, (6, 5), dtype=torch.int8)
    assert (whole(x, y) == x.int() @ y.int()).all()


@case
def small_floats_are_results_too() -> None:
    kernel = tw.compile(tw.MatmulSpec(4, 5, 6, a="bf16", epilogue=(tw.cast("f8E4M3FN"),)))
    assert kernel(A.bfloat16(), B.bfloat16()).dtype == torch.float8_e4m3fn


@case
def few_elements() -> None:
    assert tw.compile(tw.MatmulSpec(0, 5, 6))(torch.empty(0, 6), B).shape == (0, 5)
    assert not tw.compile(tw.MatmulSpec(4, 5, 0))(torch.empty(4, 0), torch.empty(0, 5)).any()
    scaled = tw.compile(tw.MatmulSpec(4, 5, 6, alpha="arg"))
    assert close(scaled(A, B, alpha=torch.tensor(2.0)), 2 * A)


@case
def transposed_views_and_heads() -> None:
    kernel = tw.compile(tw.MatmulSpec(4, 5, 6, layout="nt"))
    assert close(kernel(A, B.T.contiguous()))
    q = torch.rand(7, 3, 8)
    scores = tw.compile(tw.MatmulSpec(7, 7, 8, layout="nt", batch=(3,)))
    heads = q.transpose(0, 1)
    assert close(scores(heads, heads), heads, heads.transpose(1, 2))


@case
def parameters_and_inference() -> None:
    layer = torch.nn.Linear(6, 5, bias=False)
    kernel = tw.compile(tw.MatmulSpec(4, 5, 6, layout="nt"))
    refuses(r"operand b: .*Parameter.*detach\(\)", lambda: kernel(A, layer.weight))
    assert close(kernel(A, layer.weight.detach()), A, layer.weight.detach().T)
    with torch.inference_mode():
        assert close(KERNEL(torch.rand(4, 6) * 0 + A, B))
    refuses(r"operand out: .*detach\(\)", lambda: KERNEL(A, B, out=torch.zeros(4, 5, requires_grad=True)))


@case
def references_and_quantizers() -> None:
    a, b = A.bfloat16(), B.bfloat16()
    spec = tw.MatmulSpec(4, 5, 6, a="bf16", c="f32")
    exact, bound = tw.reference(spec, a, b), tw.error_bound(spec, a, b)
    assert (abs(tw.compile(spec)(a, b).double().numpy() - exact) <= bound).all()
    w = torch.rand(8, 64)
    for made, numpys in (
        (tw.quantize_weights(w, "i8", 32), tw.quantize_weights(w.numpy(), "i8", 32)),
        (tw.mx_quantize(w), tw.mx_quantize(w.numpy())),
    ):
        np.testing.assert_array_equal(made.codes, numpys.codes)
        np.testing.assert_array_equal(made.scales, numpys.scales)


@case
def what_lies_elsewhere() -> None:
    made: dict[str, Callable[[], Any]] = {
        "layout other than torch.strided": A.to_sparse,
        "meta": lambda: A.to("meta"),
        "resolve_neg": lambda: torch.complex(A, A).conj().imag,
        "conjugate bit": lambda: torch.complex(A, A).conj(),
        "2 lanes": lambda: torch.zeros(4, 3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        "element type complex64": lambda: torch.complex(A, A),
        "element type float64": A.double,
        "cannot be shared|type": lambda: torch.quantize_per_tensor(A, 1.0, 0, torch.qint8),
        "cannot be shared|missing": lambda: torch.nested.nested_tensor([A[0], A[1, :3]]),
    }
    for words, make in made.items():
        refuses(f"operand a: .*({words})", lambda make=make: KERNEL(make(), B))
    with import_module("torch._subclasses").FakeTensorMode():
        fake = torch.rand(4, 6)
    refuses("operand a: .*(memory is missing|cannot be shared)", lambda: KERNEL(fake, B))


@case
def overlaps() -> None:
    square = tw.compile(tw.MatmulSpec(4, 4, 4))
    a = torch.rand(4, 4)
    refuses("operand out: it overlaps operand a", lambda: square(a, torch.rand(4, 4), out=a))
    refuses("operand out: strides", lambda: square(a, a, out=torch.zeros(4, 1).expand(4, 4)))


@case
def memory_is_given_back() -> None:
    kernel = tw.compile(tw.MatmulSpec(256, 256, 8))
    a, b = torch.rand(256, 8), torch.rand(8, 256)
    before = _resident()
    for _ in range(400):
        kernel(a, b)
    gc.collect()
    assert _resident() - before < 40e6  # 400 results are 105 MB.


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@case
def results_outlive_the_kernel() -> None:
    c = tw.compile(tw.MatmulSpec(4, 5, 6), cache=False)(A, B)
    gc.collect()
    assert close(c)


@case
def a_call_costs_little_more_than_numpys() -> None:
    """Some 1 µs more; the bound allows for other programs that run meanwhile."""
    kernel = tw.compile(tw.MatmulSpec(4, 4, 4))
    a, b = torch.rand(4, 4), torch.rand(4, 4)
    costs = {"torch": 1e9, "numpy": 1e9}
    for _ in range(300):
        for name, x, y in (("torch", a, b), ("numpy", a.numpy(), b.numpy())):
            start = time.perf_counter_ns()
            for _ in range(100):
                kernel(x, y)
            costs[name] = min(costs[name], (time.perf_counter_ns() - start) / 100)
    assert costs["torch"] - costs["numpy"] < 10_000, costs


@case
def modules_and_operators() -> None:
    module = tw.compile_chain((tw.MatmulSpec(4, 5, 6), tw.MatmulSpec(4, 3, 5)))
    w = torch.rand(5, 3)
    assert close(module(A, B, w), A @ B, w)
    bias = torch.rand(5)
    kernel = tw.compile(tw.MatmulSpec(4, 5, 6, epilogue=(tw.bias("n"), tw.relu())))
    expected = (A @ B + bias).relu()
    assert torch.allclose(kernel(A, B, bias), expected, rtol=1e-5)
    assert torch.allclose(kernel(A, B, bias=bias, out=torch.empty(4, 5)), expected, rtol=1e-5)
    packed: Any = tw.compile(tw.MatmulSpec(4, 5, 6, b_packed=True))
    assert close(packed(A, packed.pack_b(B)))


@case
def inferred_products() -> None:
    assert close(tw.matmul(A, B))
    assert close(tw.matmul(A, B.numpy()))
    assert torch.allclose(tw.matmul(A, B[:, 0]), A @ B[:, 0])
    assert tw.matmul(A[0], B[:, 0]).shape == ()
    assert close(tw.matmul(B.T, A.T), B.T, A.T)
    a, b = torch.rand(2, 3, 4, 6), torch.rand(3, 6, 5)
    assert close(tw.matmul(a, b), a, b)
    assert tw.matmul(A.bfloat16(), B.bfloat16()).dtype == torch.float32
    x, y = torch.randint(-(2**62), 2**62, (4, 6)), torch.randint(-(2**62), 2**62, (6, 5))
    assert (tw.matmul(x, y) == x @ y).all()
    assert close(tw.matmul(A, B.double()), A.double(), B)
    for type_ in (torch.float32, torch.float64):
        out = torch.empty(4, 5, dtype=type_)
        assert tw.matmul(A, B, out=out) is out
        assert close(out)
    half = torch.empty(4, 5, dtype=torch.bfloat16)
    assert tw.matmul(A.bfloat16(), B.bfloat16(), out=half) is half
    assert close(half, A.bfloat16(), B.bfloat16(), 2e-2)
    refuses(r"detach\(\)", lambda: tw.matmul(torch.nn.Parameter(A), B))
    refuses("numpy makes no array", lambda: tw.matmul([torch.nn.Parameter(A[0])], B))
    refuses(r"bits.*x\.to\(float32\)", lambda: tw.matmul(A.to(torch.complex32), B))
    refuses("tilewright.torch", lambda: torch.func.vmap(lambda x: tw.matmul(x, B))(torch.rand(3, 4, 6)))


@case
def calls_in_compiled_functions() -> None:
    """Without `tilewright.torch`, Dynamo goes around what is marked; kernels it knows not to follow."""
    product = torch.compiler.disable(tw.matmul)
    for call in (product, KERNEL):
        compiled = torch.compile(lambda x, y, call=call: call(x, y) * 2, backend="eager")
        assert torch.allclose(compiled(A, B), 2 * (A @ B), rtol=1e-5)


@case
def inferred_operators() -> None:
    q, k, v = (torch.rand(2, 5, 8) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(tw.attention(q, k, v), expected, atol=1e-5)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert torch.allclose(tw.attention(q, k, v, mask), expected, atol=1e-5)
    x, w = torch.rand(1, 4, 6, 6), torch.rand(8, 4, 3, 3)
    images = tw.conv2d(x, w, layout="nchw")
    assert torch.allclose(images, torch.nn.functional.conv2d(x, w), atol=1e-4)


@case
def images_and_filters_of_either_memory_format() -> None:
    def last(x: Any) -> Any:
        return x.to(memory_format=torch.channels_last)

    x, w, bias, added = torch.rand(2, 4, 6, 7), torch.rand(8, 4, 3, 3), torch.rand(8), torch.rand(2, 8, 6, 7)
    expected = torch.nn.functional.conv2d(x, w, bias, padding=1) + added
    how: Any = {"layout": "nchw", "padding": 1, "epilogue": (tw.bias("n"), tw.residual())}
    for filters in (w, last(w)):
        for images, more in ((x, added), (last(x), last(added))):
            found = tw.conv2d(images, filters, bias, more, **how)
            assert found.is_contiguous(memory_format=torch.channels_last) == (images is not x)
            assert torch.allclose(found, expected, atol=1e-5)
            out = torch.full_like(more, torch.nan)
            assert tw.conv2d(images, filters, bias, more, **how, out=out) is out
            assert torch.equal(out, found)
    refuses(
        "operand out.*not adjacent",
        lambda: tw.conv2d(last(x), w, bias, last(added), **how, out=torch.empty_like(added)),
    )


@case
def bytes_of_two_elements() -> None:
    elements = torch.arange(-8, 8, dtype=torch.int8).view(2, 8)
    packed = tw.pack_nibbles(elements.numpy().astype(ml_dtypes.int4))
    assert (tw.unpack_nibbles(torch.from_numpy(packed), "i4", 8).astype(np.int8) == elements.numpy()).all()
    refuses("int8; expected one of ml_dtypes'", lambda: tw.pack_nibbles(elements))


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    run()
