// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Three heads of one product: the first is of what is different for each, with a bias for each head's columns and a mask for all;
// the second of one matrix for all.
func.func @heads(%q: tensor<20x3x16xf32>, %k: tensor<3x16x24xf32>, %bias: tensor<3x24xf32>, %mask: tensor<20x24xf32>,
                 %w: tensor<24x8xf32>) -> tensor<20x3x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x20x24xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x20x24xf32>) -> tensor<3x20x24xf32>
  %qk = linalg.contract
    indexing_maps = [affine_map<(h, i, j, d) -> (i, h, d)>, affine_map<(h, i, j, d) -> (h, d, j)>, affine_map<(h, i, j, d) -> (h, i, j)>]
    ins(%q, %k : tensor<20x3x16xf32>, tensor<3x16x24xf32>) outs(%clear : tensor<3x20x24xf32>) -> tensor<3x20x24xf32>
  %masked = linalg.generic {
    indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, j)>, affine_map<(h, i, j) -> (i, j)>, affine_map<(h, i, j) -> (h, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%qk, %bias, %mask : tensor<3x20x24xf32>, tensor<3x24xf32>, tensor<20x24xf32>) outs(%empty : tensor<3x20x24xf32>) {
  ^bb0(%x: f32, %b: f32, %m: f32, %o: f32):
    %s = arith.addf %x, %b : f32
    %t = arith.mulf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<3x20x24xf32>
  %into = tensor.empty() : tensor<20x3x8xf32>
  %clear2 = linalg.fill ins(%zero : f32) outs(%into : tensor<20x3x8xf32>) -> tensor<20x3x8xf32>
  %o = linalg.contract
    indexing_maps = [affine_map<(h, i, d, j) -> (h, i, j)>, affine_map<(h, i, d, j) -> (j, d)>, affine_map<(h, i, d, j) -> (i, h, d)>]
    ins(%masked, %w : tensor<3x20x24xf32>, tensor<24x8xf32>) outs(%clear2 : tensor<20x3x8xf32>) -> tensor<20x3x8xf32>
  return %o : tensor<20x3x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK-NOT:     scf.for
// CHECK:         linalg.generic {{.*}}orders = {{\[\[}}1, 0, 2], [0, 1, 2], [0, -1, 1], [-1, 0, 1], [0, 1, 2]], product = 0
// CHECK-NOT:     scf.for
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK-LABEL: func.func @matmul(
// CHECK-COUNT-4: tensor<3x{{[0-9]+x[0-9]+}}xf32>
