# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole modules: each file of test/modules computes what NumPy does, and its products are found."""

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.errors import SlowScheduleWarning

MODULES = Path(__file__).parents[1] / "modules"
RANDOM = np.random.default_rng(20)


def load(name, **options):
    return tw.compile_module((MODULES / f"{name}.mlir").read_text(), filename=f"{name}.mlir", **options)


def values(signature):
    """Random arguments for a function, small enough that f32 is accurate."""
    found = []
    for each in signature.arguments:
        kind = tw.dtypes.to_numpy(each.type)
        if each.type.kind == "float":
            found.append(np.asarray(RANDOM.standard_normal(each.shape) * 0.5).astype(kind))
        else:
            info = np.iinfo(kind)
            found.append(RANDOM.integers(info.min, info.max, each.shape, endpoint=True).astype(kind))
    return found


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2)))


def feed_forward(x, w1, b1, w2, b2):
    return gelu(x @ w1 + b1) @ w2 + b2 + x


def attention(q, k, v):
    return np.einsum("hij,jhd->ihd", softmax(np.einsum("ihd,jhd->hij", q, k) / 4), v)


def heads(q, k, bias, mask, w):
    return np.einsum("hij,jd->ihd", (np.einsum("ihd,hdj->hij", q, k) + bias[:, None]) * mask, w)


def residual(x, scale, shift, w):
    return np.maximum(x * scale + shift, 0).sum(0) / 32 @ w


def quantized(a, b, scale):
    return np.clip(np.round((a @ b).astype(np.float32) * scale.astype(np.float32)), -128, 127)


def transposes(at, b, c, d):
    ab = at.T @ b
    return (ab @ c @ d).T, ab


def unused(a, never):
    w = np.array([[1, 2, 3, 4], [0.5, 0.25, 0, -1], [1, 1, 1, 1], [2, 2, 2, 2], *np.eye(4)])
    return a, a @ w, np.ones((2, 2))


def rows(x, gamma):
    centered = x - x.mean(1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5) * gamma


def vectors(a, x):
    return a @ x, np.asarray(x @ x), np.sin(a[3:7, 2:7])


CASES = {
    # File: what it computes, and how many products it has.
    "feed_forward": (feed_forward, 2),
    "attention": (attention, 2),
    "batched": (lambda a, b, bias, w: np.exp(a @ b + bias) @ w, 2),
    "residual": (residual, 1),
    "quantized": (quantized, 1),
    "chain": (lambda a, b, c: a @ b @ c, 2),
    "transposes": (transposes, 3),
    "unused": (unused, 1),
    "rounded": (lambda a, b, bias: np.tanh(a @ b + bias), 1),
    "gated": (lambda x, w, v: silu(x @ w) * (x @ v), 2),
    "tokens": (lambda x, w, b: x @ w + b + x, 1),
    "rows": (rows, 0),
    "vectors": (vectors, 2),
    "heads": (heads, 2),
    "masked": (lambda q, k: np.where(np.tri(33, dtype=bool), q @ k, -1e9), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_results_are_those_of_numpy(name):
    compute, products = CASES[name]
    module = load(name)
    signature = module[name].signature
    arguments = values(signature)
    wide = [each.astype(np.int64 if each.dtype.kind in "iu" else np.float64) for each in arguments]
    expected = compute(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    results = module(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    assert len(signature.products) == products
    for result, right, each in zip(results, expected, signature.results, strict=True):
        assert (result.shape, result.dtype) == (each.shape, tw.dtypes.to_numpy(each.type))
        tolerance = {"f64": 1e-12, "f32": 3e-5, "bf16": 2**-7, "i8": 1e-9}[each.element]
        np.testing.assert_allclose(result.astype(np.float64), right, rtol=tolerance, atol=tolerance)


def test_threads_share_a_batch():
    text = (MODULES / "heads.mlir").read_text()
    for size, more in (("20x", "192x"), ("x24", "x192"), ("24x", "192x"), ("x16", "x96")):
        text = text.replace(size, more)
    one, two = (tw.compile_module(text, threads=threads) for threads in (1, 2))
    assert "omp.parallel" in two.asm["bufferized"]
    arguments = values(one["heads"].signature)
    assert (one(*arguments) == two(*arguments)).all()


def test_what_comes_before_a_product_is_its_prologue():
    module = load("prologues")
    assert [each.split(" [")[1:] for each in module["prologues"].signature.products] == [["a: fused]", "b: fused]"], []]
    arguments = values(module["prologues"].signature)
    x, shift, w, scale, v = (each.astype(np.float32) for each in arguments)
    a, b = (each.astype(arguments[0].dtype).astype(float) for each in (np.maximum(x + shift, 0), w * scale[:, None]))
    expected = a @ b.T @ v.T
    assert np.abs(module(*arguments) - expected).max() < 1e-5 * np.abs(expected).max()


def test_memrefs_are_written_in_place():
    function = load("buffers")["buffers"]
    wide = RANDOM.standard_normal((12, 32)).astype(np.float32) * 0.5
    a, b = wide[:, 4:24], RANDOM.standard_normal((20, 16)).astype(np.float32) * 0.5
    c, d = np.zeros((12, 32), np.float32)[:, :16], RANDOM.standard_normal((24, 16)).astype(np.float32)
    former = d.copy()
    assert function(a, b, c, d) is None
    np.testing.assert_allclose(c, np.exp(a @ b), rtol=3e-5)
    np.testing.assert_allclose(d[8:20], former[8:20] + a @ b, rtol=3e-5, atol=3e-5)
    np.testing.assert_array_equal(d[:8], former[:8])
    np.testing.assert_array_equal(d[20:], former[20:])


def test_functions_have_names():
    module = load("functions")
    a, b = values(module["first"].signature)
    assert list(module) == ["first", "second"]
    np.testing.assert_allclose(module["first"](a, b=b), a @ b, rtol=3e-5, atol=3e-5)
    np.testing.assert_allclose(module["second"](a, b), (a @ b).max(1), rtol=3e-5, atol=3e-5)
    assert module.asm["llvm"].count("llvm.func internal @product0(") == 1
    assert "@product1" not in module.asm["llvm"]
    with pytest.raises(tw.SpecError, match=r"2 functions.*module\[name\], with one of first, second"):
        module(a, b)


@pytest.mark.parametrize(
    ("shape", "groups", "axis"),
    [("32x1x48", "[0], [1, 2]", 2), ("1x32x48", "[0, 1], [2]", 2), ("32x48x1", "[0], [1, 2]", 1)],
)
def test_a_reduction_of_a_reshaped_tensor(shape, groups, axis):
    # Upstream's folding of the reshape into what reads vectors of it did not end.
    left = [each for number, each in enumerate(shape.split("x")) if number != axis]
    kind = f"tensor<{'x'.join(left)}xf32>"
    text = f"""
func.func @f(%x: tensor<32x48xf32>) -> {kind} {{
  %e = tensor.expand_shape %x [{groups}] output_shape [{shape.replace("x", ", ")}] : tensor<32x48xf32> into tensor<{shape}xf32>
  %z = arith.constant 0.0 : f32
  %i = tensor.empty() : {kind}
  %f = linalg.fill ins(%z : f32) outs(%i : {kind}) -> {kind}
  %r = linalg.reduce ins(%e : tensor<{shape}xf32>) outs(%f : {kind}) dimensions = [{axis}]
    (%a: f32, %b: f32) {{ %s = arith.addf %a, %b : f32  linalg.yield %s : f32 }}
  return %r : {kind}
}}
"""
    x = np.random.default_rng(0).uniform(-1, 1, (32, 48)).astype(np.float32)
    expected = x.astype(np.float64).reshape([int(each) for each in shape.split("x")]).sum(axis)
    result = tw.compile_module(text)["f"](x)
    assert result.shape == expected.shape
    # 48 terms of at most 1, each rounded once more than it is added.
    assert (abs(result - expected) <= 48 * 48 * 2.0**-24).all()


PRODUCT = """func.func @f(%a: tensor<{a}>, %b: tensor<{b}>) -> tensor<4x8x{c}> {{
  %zero = arith.constant {zero} : {c}
  %none = tensor.empty() : tensor<4x8x{c}>
  %start = linalg.fill ins(%zero : {c}) outs(%none : tensor<4x8x{c}>) -> tensor<4x8x{c}>
  %sum = linalg.generic {{
    indexing_maps = [affine_map<(m, n, k) -> ({read})>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  }} ins(%a, %b : tensor<{a}>, tensor<{b}>) outs(%start : tensor<4x8x{c}>) {{
  ^bb0(%x: {element}, %y: {element}, %s: {c}):
{body}
  }} -> tensor<4x8x{c}>
  return %sum : tensor<4x8x{c}>
}}"""


def test_unsigned_bytes_are_known_by_how_they_are_extended():
    body = """    %p = arith.extui %x : i8 to i32
    %q = arith.extui %y : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %s, %r : i32
    linalg.yield %t : i32"""
    text = PRODUCT.format(a="4x16xi8", b="16x8xi8", c="i32", zero="0", read="m, k", element="i8", body=body)
    module = tw.compile_module(text, cache=False)
    a, b = (RANDOM.integers(128, 255, shape, endpoint=True).astype(np.uint8) for shape in ((4, 16), (16, 8)))
    assert len(module["f"].signature.products) == 1
    given = [
        each.view(tw.dtypes.to_numpy(kind.type))
        for each, kind in zip((a, b), module["f"].signature.arguments, strict=True)
    ]
    np.testing.assert_array_equal(module(*given), a.astype(np.int32) @ b.astype(np.int32))


def test_the_diagonal_of_an_operand_is_no_matrix():
    body = """    %r = arith.mulf %x, %y : f32
    %t = arith.addf %s, %r : f32
    linalg.yield %t : f32"""
    text = PRODUCT.format(a="4x16x16xf32", b="16x8xf32", c="f32", zero="0.0", read="m, k, k", element="f32", body=body)
    with pytest.warns(SlowScheduleWarning, match=r"5:10: linalg\.generic"):
        module = tw.compile_module(text, cache=False)
    assert module["f"].signature.products == ()
    a, b = (RANDOM.integers(-8, 8, shape).astype(np.float32) for shape in ((4, 16, 16), (16, 8)))
    np.testing.assert_array_equal(module(a, b), np.einsum("mkk,kn->mn", a, b))
