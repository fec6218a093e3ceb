# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules with dynamic extents: one object for all sizes, and nothing out of bounds."""

import numpy as np
import pytest
import tilewright as tw

RANDOM = np.random.default_rng(21)

ATTENTION = """
#hid = affine_map<(h, i, j, d) -> (h, i, d)>
#hjd = affine_map<(h, i, j, d) -> (h, j, d)>
#hij = affine_map<(h, i, j, d) -> (h, i, j)>
func.func @f(%q: tensor<?x?x16xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x16xf32>) -> tensor<?x?x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %h = tensor.dim %q, %c0 : tensor<?x?x16xf32>
  %i = tensor.dim %q, %c1 : tensor<?x?x16xf32>
  %j = tensor.dim %k, %c1 : tensor<?x?x16xf32>
  %e = tensor.empty(%h, %i, %j) : tensor<?x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %s = linalg.contract indexing_maps = [#hid, #hjd, #hij]
      ins(%q, %k : tensor<?x?x16xf32>, tensor<?x?x16xf32>) outs(%z : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %e2 = tensor.empty(%h, %i) : tensor<?x?x16xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<?x?x?xf32>, tensor<?x?x16xf32>) outs(%z2 : tensor<?x?x16xf32>)
      -> tensor<?x?x16xf32>
  return %o : tensor<?x?x16xf32>
}
"""
BLOCK = """
#ijk = affine_map<(i, j, k) -> (i, j, k)>
#k = affine_map<(i, j, k) -> (k)>
func.func @f(%x: tensor<?x12x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>, %v: tensor<48x32xf32>)
    -> tensor<?x12x32xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x12x32xf32>
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x12x32xf32> into tensor<?x32xf32>
  %m = tensor.dim %flat, %c0 : tensor<?x32xf32>
  %e = tensor.empty(%m) : tensor<?x48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x48xf32>) -> tensor<?x48xf32>
  %y = linalg.matmul ins(%flat, %w : tensor<?x32xf32>, tensor<32x48xf32>) outs(%z : tensor<?x48xf32>) -> tensor<?x48xf32>
  %h = tensor.expand_shape %y [[0, 1], [2]] output_shape [%n, 12, 48] : tensor<?x48xf32> into tensor<?x12x48xf32>
  %eh = tensor.empty(%n) : tensor<?x12x48xf32>
  %g = linalg.generic {indexing_maps = [#ijk, #k, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%h, %b : tensor<?x12x48xf32>, tensor<48xf32>) outs(%eh : tensor<?x12x48xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %t = arith.maximumf %s, %zero : f32
    linalg.yield %t : f32
  } -> tensor<?x12x48xf32>
  %gf = tensor.collapse_shape %g [[0, 1], [2]] : tensor<?x12x48xf32> into tensor<?x48xf32>
  %e2 = tensor.empty(%m) : tensor<?x32xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %y2 = linalg.matmul ins(%gf, %v : tensor<?x48xf32>, tensor<48x32xf32>) outs(%z2 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %o = tensor.expand_shape %y2 [[0, 1], [2]] output_shape [%n, 12, 32] : tensor<?x32xf32> into tensor<?x12x32xf32>
  return %o : tensor<?x12x32xf32>
}
"""
SUMS = """
func.func @f(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %sums: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = memref.dim %x, %c0 : memref<?x?xf32>
  %n = memref.dim %y, %c1 : memref<?x?xf32>
  %t = memref.alloc(%m, %n) : memref<?x?xf32>
  linalg.add ins(%x, %y : memref<?x?xf32>, memref<?x?xf32>) outs(%t : memref<?x?xf32>)
  linalg.square ins(%t : memref<?x?xf32>) outs(%x : memref<?x?xf32>)
  linalg.fill ins(%zero : f32) outs(%sums : memref<?xf32>)
  linalg.reduce { arith.addf } ins(%t : memref<?x?xf32>) outs(%sums : memref<?xf32>) dimensions = [1]
  memref.dealloc %t : memref<?x?xf32>
  return
}
"""


def array(*shape):
    return (RANDOM.standard_normal(shape) * 0.5).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True)) if x.size else x
    return e / e.sum(-1, keepdims=True)


def test_attention_over_any_number_of_heads_and_tokens():
    function = tw.compile_module(ATTENTION)["f"]
    assert function.signature.products == ("?*?x?x16 f32 nt", "?*?x16x? f32 nn")
    assert str(function.signature).startswith("f(q: d0xd1x16 f32, k: d0xd2x16 f32")
    for heads, queries, keys in ((1, 1, 1), (2, 7, 33), (3, 64, 130), (0, 3, 3), (2, 0, 3)):
        q, k, v = array(heads, queries, 16), array(heads, keys, 16), array(heads, keys, 16)
        np.testing.assert_allclose(function(q, k, v), softmax(q @ k.swapaxes(1, 2)) @ v, atol=1e-5)
    with pytest.raises(tw.OperandError, match=r"operand v: shape \(2, 4, 16\); expected \(2, 3, 16\)"):
        function(array(2, 5, 16), array(2, 3, 16), array(2, 4, 16))


@pytest.mark.parametrize("rows", ["?", "5"])
def test_products_of_tokens_that_were_flattened(rows):
    text = BLOCK
    if rows != "?":
        for open_, known in (("?x12", f"{rows}x12"), ("?x", f"{12 * int(rows)}x"), ("[%n,", f"[{rows},")):
            text = text.replace(open_, known)
        text = text.replace("empty(%m)", "empty()").replace("empty(%n)", "empty()")
    function = tw.compile_module(text)["f"]
    assert [each.endswith("[fused]") for each in function.signature.products] == [True, False]
    assert not function.signature.slow
    w, b, v = array(32, 48), array(48), array(48, 32)
    for batch in (0, 1, 5, 40) if rows == "?" else (5,):
        x = array(batch, 12, 32)
        np.testing.assert_allclose(function(x, w, b, v), np.maximum(x @ w + b, 0) @ v, atol=1e-5)


def test_rows_of_two_open_extents_are_flattened_and_come_apart_again():
    text = (
        BLOCK.replace("?x12", "?x?")
        .replace("[%n, 12,", "[%n, %tokens,")
        .replace("tensor.empty(%n)", "tensor.empty(%n, %tokens)")
    )
    text = text.replace(
        "  %flat =", "  %c1 = arith.constant 1 : index\n  %tokens = tensor.dim %x, %c1 : tensor<?x?x32xf32>\n  %flat ="
    )
    function = tw.compile_module(text)["f"]
    w, b, v = array(32, 48), array(48), array(48, 32)
    for batch, tokens in ((0, 3), (1, 1), (5, 7), (3, 0)):
        x = array(batch, tokens, 32)
        np.testing.assert_allclose(function(x, w, b, v), np.maximum(x @ w + b, 0) @ v, atol=1e-5)


def test_memrefs_of_any_extents():
    function = tw.compile_module(SUMS)["f"]
    assert not function.signature.slow
    for rows, columns in ((1, 1), (3, 64), (5, 200), (2, 0)):
        x, y, sums = array(rows, columns + 3)[:, :columns], array(rows, columns), array(rows)
        total = x + y
        function(x, y, sums)
        np.testing.assert_allclose(x, total**2, rtol=1e-6)
        np.testing.assert_allclose(sums, total.sum(1), atol=1e-4)
    with pytest.raises(tw.OperandError, match="operand y: shape"):
        function(array(3, 4), array(3, 5), array(3))


def test_scratch_that_nobody_has_is_refused():
    function = tw.compile_module(ATTENTION)["f"]
    some = np.zeros((1, 1, 16), np.float32)
    tall = np.lib.stride_tricks.as_strided(some, (1, 2**28, 16), (64, 64, 4))
    with pytest.raises(MemoryError):
        function(tall, tall, tall)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "func.func @f(%a: tensor<?xf32>, %n: tensor<?xf32>) -> tensor<?x2xf32> {\n"
            "  %c0 = arith.constant 0 : index\n  %d = tensor.dim %a, %c0 : tensor<?xf32>\n"
            "  %e = tensor.expand_shape %a [[0, 1]] output_shape [%d, 2] : tensor<?xf32> into tensor<?x2xf32>\n"
            "  return %e : tensor<?x2xf32>\n}",
            r"m\.mlir:\d+:\d+: what extent 0 of a .* is, the arguments do not tell",
        ),
        (
            "func.func @f(%a: tensor<?x4xf32>) -> tensor<2x4xf32> {\n"
            "  %r = tensor.extract_slice %a[1, 0] [2, 4] [1, 1] : tensor<?x4xf32> to tensor<2x4xf32>\n"
            "  return %r : tensor<2x4xf32>\n}",
            r"m\.mlir:2:8: tensor\.extract_slice of a tensor<\?x4xf32>, with a dynamic extent, is not supported yet",
        ),
        (
            "func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {\n  %c1 = arith.constant 1 : index\n"
            "  %c0 = arith.constant 0 : index\n  %d = tensor.dim %a, %c0 : tensor<?xf32>\n"
            "  %t = arith.addi %d, %c1 : index\n  %e = tensor.empty(%t) : tensor<?xf32>\n  return %e : tensor<?xf32>\n}",
            r"m\.mlir:5:8: arith\.addi of single numbers is not supported yet",
        ),
    ],
)
def test_extents_that_arguments_do_not_tell_are_refused(text, says):
    with pytest.raises(tw.SpecError, match=says):
        tw.compile_module(text, filename="m.mlir", cache=False)
