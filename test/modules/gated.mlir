// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// silu(x W) * (x V): one product is finished with the other one's result.
func.func @gated(%x: tensor<14x33xf32>, %w: tensor<33x26xf32>, %v: tensor<33x26xf32>) -> tensor<14x26xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<14x26xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<14x26xf32>) -> tensor<14x26xf32>
  %a = linalg.matmul ins(%x, %w : tensor<14x33xf32>, tensor<33x26xf32>) outs(%f : tensor<14x26xf32>) -> tensor<14x26xf32>
  %b = linalg.matmul ins(%x, %v : tensor<14x33xf32>, tensor<33x26xf32>) outs(%f : tensor<14x26xf32>) -> tensor<14x26xf32>
  %g = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%a, %b : tensor<14x26xf32>, tensor<14x26xf32>) outs(%e : tensor<14x26xf32>) {
  ^bb0(%p: f32, %q: f32, %z: f32):
    %n = arith.negf %p : f32
    %x1 = math.exp %n : f32
    %d = arith.addf %one, %x1 : f32
    %s = arith.divf %p, %d : f32
    %y = arith.mulf %s, %q : f32
    linalg.yield %y : f32
  } -> tensor<14x26xf32>
  return %g : tensor<14x26xf32>
}

// What is done to the sums of the first product takes the other product's result.
// CHECK-LABEL: func.func @gated(
// CHECK:         %[[B:.*]] = linalg.generic {{.*}}product = 1
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %[[B]] : {{.*}}product = 0
// CHECK-NOT:     linalg.generic
// CHECK:         return
