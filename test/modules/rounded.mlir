// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// bf16 by bf16, summed in f32; what comes after is computed in f32, and rounded to bf16 once.
func.func @rounded(%a: tensor<18x34xbf16>, %b: tensor<34x22xbf16>, %bias: tensor<22xbf16>) -> tensor<18x22xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<18x22xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<18x22xf32>) -> tensor<18x22xf32>
  %c = linalg.matmul ins(%a, %b : tensor<18x34xbf16>, tensor<34x22xbf16>) outs(%f : tensor<18x22xf32>) -> tensor<18x22xf32>
  %out = tensor.empty() : tensor<18x22xbf16>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%c, %bias : tensor<18x22xf32>, tensor<22xbf16>) outs(%out : tensor<18x22xbf16>) {
  ^bb0(%x: f32, %y: bf16, %z: bf16):
    %w = arith.extf %y : bf16 to f32
    %s = arith.addf %x, %w : f32
    %t = math.tanh %s : f32
    %n = arith.truncf %t : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<18x22xbf16>
  return %r : tensor<18x22xbf16>
}

// CHECK-LABEL: func.func @rounded(
// CHECK-COUNT-1: linalg.generic {{.*}}product = 0
// CHECK-NOT:     linalg.generic
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK:         linalg.matmul {{.*}} -> tensor<18x22xf32>
// CHECK:         math.tanh
// CHECK:         arith.truncf
