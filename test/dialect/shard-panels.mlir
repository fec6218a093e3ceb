// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-panels))' | FileCheck %s
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-panels{per-block=3}))' | FileCheck %s --check-prefix=FINER
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-panels{multiple=6}))' | FileCheck %s --check-prefix=DEEP

shard.grid @grid(shape = 2x4)

// A is in four blocks along K, B in two: four panels, of which two are in each block of B.
// CHECK-LABEL: func @summa
//  CHECK-SAME:   (%[[A:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<8x6xf32>, %[[C:.*]]: tensor<8x6xf32>)
//   CHECK-NOT:   shard.all_gather
//       CHECK:   %[[A0:.*]] = shard.broadcast %[[A]] on @grid grid_axes = [1] root = [0]
//       CHECK:   %[[B0:.*]] = tensor.extract_slice %[[B]][0, 0] [4, 6]
//       CHECK:   %[[P0:.*]] = shard.broadcast %[[B0]] on @grid grid_axes = [0] root = [0]
//       CHECK:   %[[C0:.*]] = linalg.matmul ins(%[[A0]], %[[P0]] : {{.*}}) outs(%[[C]] :
//       CHECK:   shard.broadcast %[[A]] on @grid grid_axes = [1] root = [1]
//       CHECK:   tensor.extract_slice %[[B]][4, 0] [4, 6]
//       CHECK:   shard.broadcast %{{.*}} on @grid grid_axes = [0] root = [0]
//       CHECK:   linalg.matmul {{.*}} outs(%[[C0]] :
//       CHECK:   shard.broadcast %[[A]] on @grid grid_axes = [1] root = [2]
//       CHECK:   tensor.extract_slice %[[B]][0, 0] [4, 6]
//       CHECK:   shard.broadcast %{{.*}} on @grid grid_axes = [0] root = [1]
//       CHECK:   linalg.matmul
//       CHECK:   shard.broadcast %[[A]] on @grid grid_axes = [1] root = [3]
//       CHECK:   linalg.matmul
//   CHECK-NOT:   linalg.matmul
// Three do not divide a block of four.
// FINER-LABEL: func @summa
// FINER-COUNT-8: linalg.matmul {{.*}}tensor<8x2xf32>
//   FINER-NOT:   linalg.matmul
// FINER-LABEL: func @transposed
// DEEP-LABEL: func @summa
// DEEP-COUNT-2: shard.all_gather
//   DEEP-NOT:   shard.broadcast
func.func @summa(%a: tensor<8x4xf32>, %b: tensor<8x6xf32>, %c: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %all_a = shard.all_gather %a on @grid grid_axes = [1] gather_axis = 1 : tensor<8x4xf32> -> tensor<8x16xf32>
  %all_b = shard.all_gather %b on @grid grid_axes = [0] gather_axis = 0 : tensor<8x6xf32> -> tensor<16x6xf32>
  %sums = linalg.matmul ins(%all_a, %all_b : tensor<8x16xf32>, tensor<16x6xf32>) outs(%c : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sums : tensor<8x6xf32>
}

// Stored transposed, in blocks along both axes of the grid; A is whole.
// CHECK-LABEL: func @transposed
//  CHECK-SAME:   (%[[A:.*]]: tensor<16x8xf32>, %[[B:.*]]: tensor<6x2xf32>
//       CHECK:   tensor.extract_slice %[[A]][0, 0] [2, 8]
//       CHECK:   shard.broadcast %[[B]] on @grid grid_axes = [0, 1] root = [0, 0]
//       CHECK:   tensor.extract_slice %[[A]][10, 0] [2, 8]
//       CHECK:   shard.broadcast %[[B]] on @grid grid_axes = [0, 1] root = [1, 1]
func.func @transposed(%a: tensor<16x8xf32>, %b: tensor<6x2xf32>, %c: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %all_b = shard.all_gather %b on @grid grid_axes = [0, 1] gather_axis = 1 : tensor<6x2xf32> -> tensor<6x16xf32>
  %sums = linalg.matmul
    indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %all_b : tensor<16x8xf32>, tensor<6x16xf32>) outs(%c : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sums : tensor<8x6xf32>
}

// B is gathered along N: each product has columns of C, which it fills itself.
// CHECK-LABEL: func @columns
//  CHECK-SAME:   (%[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<16x3xf32>, %[[C:.*]]: tensor<8x6xf32>)
//       CHECK:   %[[B0:.*]] = shard.broadcast %[[B]] on @grid grid_axes = [0] root = [0]
//       CHECK:   %[[C0:.*]] = tensor.extract_slice %[[C]][0, 0] [8, 3]
//       CHECK:   %[[Z0:.*]] = linalg.fill {{.*}} outs(%[[C0]]
//       CHECK:   %[[P0:.*]] = linalg.matmul ins(%[[A]], %[[B0]] : {{.*}}) outs(%[[Z0]]
//       CHECK:   %[[D0:.*]] = tensor.insert_slice %[[P0]] into %[[C]][0, 0] [8, 3]
//       CHECK:   shard.broadcast %[[B]] on @grid grid_axes = [0] root = [1]
//       CHECK:   tensor.extract_slice %[[D0]][0, 3] [8, 3]
//       CHECK:   linalg.matmul
//       CHECK:   tensor.insert_slice %{{.*}} into %[[D0]][0, 3] [8, 3]
// The depth of instructions is a matter of K alone.
// DEEP-LABEL: func @columns
//       DEEP:   shard.broadcast
func.func @columns(%a: tensor<8x16xf32>, %b: tensor<16x3xf32>, %c: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %zero = arith.constant 0.0 : f32
  %all_b = shard.all_gather %b on @grid grid_axes = [0] gather_axis = 1 : tensor<16x3xf32> -> tensor<16x6xf32>
  %start = linalg.fill ins(%zero : f32) outs(%c : tensor<8x6xf32>) -> tensor<8x6xf32>
  %sums = linalg.matmul ins(%a, %all_b : tensor<8x16xf32>, tensor<16x6xf32>) outs(%start : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sums : tensor<8x6xf32>
}

// What others use is needed whole.
// CHECK-LABEL: func @stays
//       CHECK:   shard.all_gather
//       CHECK:   linalg.matmul
//   CHECK-NOT:   linalg.matmul
func.func @stays(%a: tensor<8x16xf32>, %b: tensor<16x3xf32>, %c: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<16x6xf32>) {
  %all_b = shard.all_gather %b on @grid grid_axes = [0] gather_axis = 1 : tensor<16x3xf32> -> tensor<16x6xf32>
  %sums = linalg.matmul ins(%a, %all_b : tensor<8x16xf32>, tensor<16x6xf32>) outs(%c : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sums, %all_b : tensor<8x6xf32>, tensor<16x6xf32>
}
