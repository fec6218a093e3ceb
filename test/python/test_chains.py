# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains of products: the same bits as the products one after the other, fused over rows or not, with packed weights or not."""

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.schedules.operators import chains as model

RANDOM = np.random.default_rng(4)


def stages(shape, element="f32", *, packed=False):
    m, k, hidden, n = shape
    how = {"a": element, "c": element, "b_packed": packed}
    return (
        tw.MatmulSpec(m, hidden, k, epilogue=(tw.bias("n"), tw.gelu()), **how),
        tw.MatmulSpec(m, n, hidden, epilogue=(tw.bias("n"),), **how),
    )


def values(shape, element):
    return (RANDOM.standard_normal(shape) * 0.3).astype(tw.dtypes.to_numpy(tw.dtypes.dtype(element)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("shape", "element", "fused"),
    [
        ((13, 20, 40, 9), "f32", False),
        ((13, 20, 40, 9), "bf16", False),
        ((13, 20, 40, 24), "f32", False),
        ((13, 20, 40, 24), "bf16", False),
        ((3001, 24, 512, 40), "f32", True),
        ((3001, 24, 512, 40), "bf16", True),
    ],
)
def test_the_bits_are_those_of_the_products(shape, element, fused, packed):
    target = targets.resolve("x86-64-v3")
    specs = stages(shape, element, packed=packed)
    m, k, hidden, n = shape
    assert bool(model.rows(specs[0], specs[1], target)) == fused
    chain = tw.compile_chain(specs, target=target)
    assert ("scf.for" in chain.asm["payload"]) == fused
    a, b, b2 = values((m, k), element), values((k, hidden), element), values((hidden, n), element)
    bias, bias2 = values(hidden, "f32"), values(n, "f32")
    given = (chain.pack("b", b), chain.pack("b2", b2)) if packed else (b, b2)
    first, second = (tw.compile(spec, target=target) for spec in specs)
    by_itself = (first.pack_b(b), second.pack_b(b2)) if packed else (b, b2)
    expected = second(first(a, by_itself[0], bias), by_itself[1], bias2)
    np.testing.assert_array_equal(chain(a, given[0], bias, given[1], bias2), expected)


def test_three_stages_and_transposed_weights():
    specs = (
        tw.MatmulSpec(10, 30, 20, layout="nt"),
        tw.MatmulSpec(10, 7, 30),
        tw.MatmulSpec(10, 12, 7, epilogue=(tw.relu(),)),
    )
    chain = tw.compile_chain(specs)
    a, b, c, d = values((10, 20), "f32"), values((30, 20), "f32"), values((30, 7), "f32"), values((7, 12), "f32")
    np.testing.assert_allclose(chain(a, b, c, b3=d), np.maximum(a @ b.T @ c @ d, 0), rtol=1e-4, atol=1e-5)


def test_rows_are_joined_where_that_pays():
    target = targets.resolve("x86-64-v3")
    wide, few, many = (
        model.rows(*stages(shape), target) for shape in ((128, 768, 3072, 768), (64, 64, 256, 64), (65536, 64, 256, 64))
    )
    assert wide == 0, "its weights are larger than L2"
    assert few == 0, "what is between is smaller than L2"
    assert 0 < many * 256 * 4 < target.l2.bytes
    assert many >= 16


def test_modules_have_chains_too():
    text = """
func.func @f(%a: tensor<4096x16xf32>, %b: tensor<16x256xf32>, %c: tensor<256x16xf32>) -> tensor<4096x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096x256xf32>) -> tensor<4096x256xf32>
  %h = linalg.matmul ins(%a, %b : tensor<4096x16xf32>, tensor<16x256xf32>) outs(%f : tensor<4096x256xf32>) -> tensor<4096x256xf32>
  %g = tensor.empty() : tensor<4096x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%g : tensor<4096x16xf32>) -> tensor<4096x16xf32>
  %y = linalg.matmul ins(%h, %c : tensor<4096x256xf32>, tensor<256x16xf32>) outs(%i : tensor<4096x16xf32>) -> tensor<4096x16xf32>
  return %y : tensor<4096x16xf32>
}
"""
    module = tw.compile_module(text, target="x86-64-v3")
    a, b, c = values((4096, 16), "f32"), values((16, 256), "f32"), values((256, 16), "f32")
    np.testing.assert_allclose(module(a, b, c), a @ b @ c, rtol=1e-4, atol=1e-4)
    assert module.metadata.workspace_bytes < 4096 * 256 * 4 / 2


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        ((tw.MatmulSpec(8, 8, 8),), "expected two MatmulSpecs or more"),
        ((tw.MatmulSpec(8, 8, 8), tw.MatmulSpec(8, 8, 9)), "stage 0 gives 8x8 f32, and stage 1 takes an A of 8x9 f32"),
        ((tw.MatmulSpec(8, 8, 8), tw.MatmulSpec(8, 8, 8, a="bf16")), "stage 1 takes an A of 8x8 bf16"),
        ((tw.MatmulSpec(8, 8, 8), tw.MatmulSpec(8, 8, 8, layout="tn")), "8x8 f32 stored transposed"),
        ((tw.MatmulSpec(8, 8, 8), tw.MatmulSpec(8, 8, 8, beta=1)), "stage 1 of the chain is 8x8x8 f32 nn beta=1"),
        ((tw.MatmulSpec(8, 8, 8), tw.MatmulSpec(8, 0, 8)), "expected a spec with beta 0"),
    ],
)
def test_specs_that_make_no_chain(specs, says):
    with pytest.raises(tw.SpecError, match=says):
        tw.compile_chain(specs)


def test_packed_weights_are_checked():
    specs = stages((6, 8, 16, 8), packed=True)
    chain = tw.compile_chain(specs)
    b, b2 = values((8, 16), "f32"), values((16, 8), "f32")
    a, bias, bias2 = values((6, 8), "f32"), values(16, "f32"), values(8, "f32")
    with pytest.raises(tw.OperandError):
        chain(a, b, bias, chain.pack("b2", b2), bias2)
    with pytest.raises(tw.OperandError):
        chain(a, chain.pack("b2", b2), bias, chain.pack("b2", b2), bias2)
    with pytest.raises(tw.SpecError, match="takes no argument 'bias' packed; expected one of b, b2"):
        chain.pack("bias", bias)
