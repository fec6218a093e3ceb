// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// A batch of products, a bias as what they are added to, and a product whose weights all of a batch share.
func.func @batched(%a: tensor<2x9x17xf32>, %b: tensor<2x17x13xf32>, %bias: tensor<13xf32>, %w: tensor<13x7xf32>) -> tensor<2x9x7xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x9x13xf32>
  %start = linalg.broadcast ins(%bias : tensor<13xf32>) outs(%empty : tensor<2x9x13xf32>) dimensions = [0, 1]
  %c = linalg.batch_matmul ins(%a, %b : tensor<2x9x17xf32>, tensor<2x17x13xf32>) outs(%start : tensor<2x9x13xf32>) -> tensor<2x9x13xf32>
  %e = linalg.exp ins(%c : tensor<2x9x13xf32>) outs(%empty : tensor<2x9x13xf32>) -> tensor<2x9x13xf32>
  %out = tensor.empty() : tensor<2x9x7xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%out : tensor<2x9x7xf32>) -> tensor<2x9x7xf32>
  %d = linalg.generic {
    indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%e, %w : tensor<2x9x13xf32>, tensor<13x7xf32>) outs(%clear : tensor<2x9x7xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x9x7xf32>
  return %d : tensor<2x9x7xf32>
}

// A batch, and, where all of it share their weights, one product of all rows.
// CHECK-LABEL: func.func @batched(
// CHECK-NOT:     scf.for
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         tensor.collapse_shape {{.*}} tensor<2x9x13xf32> into tensor<18x13xf32>
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK-NOT:     linalg.generic
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK:         math.exp
