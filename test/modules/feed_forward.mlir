// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// BERT's feed-forward block: two products, a bias and gelu between, a bias and the residual after.
func.func @feed_forward(%x: tensor<24x48xf32>, %w1: tensor<48x96xf32>, %b1: tensor<96xf32>, %w2: tensor<96x48xf32>,
                        %b2: tensor<48xf32>) -> tensor<24x48xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.707106769 : f32
  %hidden = tensor.empty() : tensor<24x96xf32>
  %clear1 = linalg.fill ins(%zero : f32) outs(%hidden : tensor<24x96xf32>) -> tensor<24x96xf32>
  %h = linalg.matmul ins(%x, %w1 : tensor<24x48xf32>, tensor<48x96xf32>) outs(%clear1 : tensor<24x96xf32>) -> tensor<24x96xf32>
  %g = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%h, %b1 : tensor<24x96xf32>, tensor<96xf32>) outs(%hidden : tensor<24x96xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %v = arith.addf %sum, %bias : f32
    %scaled = arith.mulf %v, %root : f32
    %erf = math.erf %scaled : f32
    %plus = arith.addf %erf, %one : f32
    %halved = arith.mulf %v, %half : f32
    %gelu = arith.mulf %halved, %plus : f32
    linalg.yield %gelu : f32
  } -> tensor<24x96xf32>
  %empty = tensor.empty() : tensor<24x48xf32>
  %clear2 = linalg.fill ins(%zero : f32) outs(%empty : tensor<24x48xf32>) -> tensor<24x48xf32>
  %o = linalg.matmul ins(%g, %w2 : tensor<24x96xf32>, tensor<96x48xf32>) outs(%clear2 : tensor<24x48xf32>) -> tensor<24x48xf32>
  %wide = linalg.broadcast ins(%b2 : tensor<48xf32>) outs(%empty : tensor<24x48xf32>) dimensions = [0]
  %biased = linalg.add ins(%o, %wide : tensor<24x48xf32>, tensor<24x48xf32>) outs(%empty : tensor<24x48xf32>) -> tensor<24x48xf32>
  %sum = linalg.add ins(%biased, %x : tensor<24x48xf32>, tensor<24x48xf32>) outs(%empty : tensor<24x48xf32>) -> tensor<24x48xf32>
  return %sum : tensor<24x48xf32>
}

// Two products; bias, gelu and residual are done to their sums, and nothing is left between.
// CHECK-LABEL: func.func @feed_forward(
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK-NOT:     linalg.generic
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK:         linalg.matmul
// CHECK:         math.erf
// CHECK-LABEL: func.func @matmul(
// CHECK:         linalg.matmul
// CHECK:         arith.addf
// CHECK:         arith.addf
// CHECK-NOT:     linalg.generic
