// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// No product at all: layer normalization, of rows whose length is no multiple of a vector's.
func.func @rows(%x: tensor<7x83xf32>, %gamma: tensor<83xf32>) -> tensor<7x83xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 83.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %col = tensor.empty() : tensor<7xf32>
  %e = tensor.empty() : tensor<7x83xf32>
  %start = linalg.fill ins(%zero : f32) outs(%col : tensor<7xf32>) -> tensor<7xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<7x83xf32>) outs(%start : tensor<7xf32>) dimensions = [1]
  %centered = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %sum : tensor<7x83xf32>, tensor<7xf32>) outs(%e : tensor<7x83xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %a, %m : f32
    linalg.yield %c : f32
  } -> tensor<7x83xf32>
  %squared = linalg.square ins(%centered : tensor<7x83xf32>) outs(%e : tensor<7x83xf32>) -> tensor<7x83xf32>
  %total = linalg.reduce { arith.addf } ins(%squared : tensor<7x83xf32>) outs(%start : tensor<7xf32>) dimensions = [1]
  %y = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%centered, %total, %gamma : tensor<7x83xf32>, tensor<7xf32>, tensor<83xf32>) outs(%e : tensor<7x83xf32>) {
  ^bb0(%a: f32, %s: f32, %g: f32, %o: f32):
    %v = arith.divf %s, %n : f32
    %w = arith.addf %v, %eps : f32
    %r = math.rsqrt %w : f32
    %c = arith.mulf %a, %r : f32
    %d = arith.mulf %c, %g : f32
    linalg.yield %d : f32
  } -> tensor<7x83xf32>
  return %y : tensor<7x83xf32>
}

// The sum of squares is taken of what was centered, in one nest.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT:     product =
// CHECK:         math.rsqrt
// CHECK-NOT:   func.func
