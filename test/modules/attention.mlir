// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// softmax(Q K^T / 4) V of three heads, which lie side by side in a row: s x h x d.
func.func @attention(%q: tensor<20x3x16xf32>, %k: tensor<20x3x16xf32>, %v: tensor<20x3x16xf32>) -> tensor<20x3x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %scores = tensor.empty() : tensor<3x20x20xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%scores : tensor<3x20x20xf32>) -> tensor<3x20x20xf32>
  %qk = linalg.generic {
    indexing_maps = [affine_map<(h, i, j, d) -> (i, h, d)>, affine_map<(h, i, j, d) -> (j, h, d)>, affine_map<(h, i, j, d) -> (h, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%q, %k : tensor<20x3x16xf32>, tensor<20x3x16xf32>) outs(%clear : tensor<3x20x20xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<3x20x20xf32>
  %scaled = linalg.map ins(%qk : tensor<3x20x20xf32>) outs(%scores : tensor<3x20x20xf32>) (%x: f32, %o: f32) {
    %y = arith.mulf %x, %scale : f32
    linalg.yield %y : f32
  }
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<3x20x20xf32>) outs(%scores : tensor<3x20x20xf32>) -> tensor<3x20x20xf32>
  %empty = tensor.empty() : tensor<20x3x16xf32>
  %clear2 = linalg.fill ins(%zero : f32) outs(%empty : tensor<20x3x16xf32>) -> tensor<20x3x16xf32>
  %o = linalg.generic {
    indexing_maps = [affine_map<(h, i, d, j) -> (h, i, j)>, affine_map<(h, i, d, j) -> (j, h, d)>, affine_map<(h, i, d, j) -> (i, h, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%p, %v : tensor<3x20x20xf32>, tensor<20x3x16xf32>) outs(%clear2 : tensor<20x3x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<20x3x16xf32>
  return %o : tensor<20x3x16xf32>
}

// Both are batches of the heads, as they lie side by side; the scale is done to the sums.
// CHECK-LABEL: func.func @attention(
// CHECK-NOT:     scf.for
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         arith.maxnumf
// CHECK:         math.exp
// CHECK-NOT:     scf.for
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<3x20x16xf32> {{.*}} tensor<3x16x20xf32> {{.*}}strided<[?, 1, ?]>
// CHECK:         linalg.contract
// CHECK:         arith.mulf
