// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit scheduled -o - | FileCheck %s
// A causal mask, by the numbers of the row and of the column.
#all = affine_map<(i, j) -> (i, j)>
func.func @masked(%q: tensor<33x16xf32>, %k: tensor<16x33xf32>) -> tensor<33x33xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<33x33xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%empty : tensor<33x33xf32>) -> tensor<33x33xf32>
  %s = linalg.matmul ins(%q, %k : tensor<33x16xf32>, tensor<16x33xf32>) outs(%clear : tensor<33x33xf32>) -> tensor<33x33xf32>
  %m = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<33x33xf32>) outs(%empty : tensor<33x33xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %j : index
    %low = arith.constant -1.0e9 : f32
    %y = arith.select %seen, %x, %low : f32
    linalg.yield %y : f32
  } -> tensor<33x33xf32>
  return %m : tensor<33x33xf32>
}

// The mask is made of vectors of numbers.
// CHECK-LABEL: func.func @masked(
// CHECK:         vector.step
// CHECK:         arith.select {{.*}} : vector<
