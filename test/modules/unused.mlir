// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Ops whose results nothing uses, an argument that nothing reads, one that is returned as it is, and constants.
func.func @unused(%a: tensor<5x8xf32>, %never: tensor<3xf32>) -> (tensor<5x8xf32>, tensor<5x4xf32>, tensor<2x2xf32>) {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [0.5, 0.25, 0.0, -1.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0],
                             [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]> : tensor<8x4xf32>
  %ones = arith.constant dense<1.0> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<5x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x4xf32>) -> tensor<5x4xf32>
  %y = linalg.matmul ins(%a, %w : tensor<5x8xf32>, tensor<8x4xf32>) outs(%f : tensor<5x4xf32>) -> tensor<5x4xf32>
  %dead = linalg.exp ins(%a : tensor<5x8xf32>) outs(%a : tensor<5x8xf32>) -> tensor<5x8xf32>
  return %a, %y, %ones : tensor<5x8xf32>, tensor<5x4xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func.func @unused(
// CHECK-NOT:     math.exp
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK-NOT:     math.exp
// CHECK:         return
