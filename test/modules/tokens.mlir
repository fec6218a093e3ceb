// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Rows of two dimensions (batch and token) by shared weights, with a bias and a residual: one product of all rows.
func.func @tokens(%x: tensor<3x10x18xf32>, %w: tensor<18x18xf32>, %b: tensor<18xf32>) -> tensor<3x10x18xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x10x18xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x10x18xf32>) -> tensor<3x10x18xf32>
  %y = linalg.contract indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>, affine_map<(b, s, n, k) -> (k, n)>, affine_map<(b, s, n, k) -> (b, s, n)>]
      ins(%x, %w : tensor<3x10x18xf32>, tensor<18x18xf32>) outs(%f : tensor<3x10x18xf32>) -> tensor<3x10x18xf32>
  %wide = linalg.broadcast ins(%b : tensor<18xf32>) outs(%e : tensor<3x10x18xf32>) dimensions = [0, 1]
  %s = linalg.add ins(%y, %wide : tensor<3x10x18xf32>, tensor<3x10x18xf32>) outs(%e : tensor<3x10x18xf32>) -> tensor<3x10x18xf32>
  %r = linalg.add ins(%s, %x : tensor<3x10x18xf32>, tensor<3x10x18xf32>) outs(%e : tensor<3x10x18xf32>) -> tensor<3x10x18xf32>
  return %r : tensor<3x10x18xf32>
}

// CHECK-LABEL: func.func @tokens(
// CHECK:         tensor.collapse_shape {{.*}} tensor<3x10x18xf32> into tensor<30x18xf32>
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK-NOT:     linalg.generic
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK:         linalg.matmul {{.*}}tensor<30x18xf32>
// CHECK:         arith.addf
// CHECK:         arith.addf
