// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-panels{per-block=2}))' | FileCheck %s

shard.grid @grid(shape = 2x1)

// Each process keeps columns of the sums: two panels of each one's block are reduced together, so that the second reduction is of what is
// multiplied while the first one is on its way.
// CHECK-LABEL: func @scattered
//  CHECK-SAME:   (%[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<16x8xf32>)
//       CHECK:   %[[B0:.*]] = tensor.extract_slice %[[B]][0, 0] [16, 2]
//       CHECK:   %[[P0:.*]] = shard.broadcast %[[B0]]
//       CHECK:   linalg.matmul ins(%[[A]], %[[P0]]
//       CHECK:   %[[B2:.*]] = tensor.extract_slice %[[B]][0, 4] [16, 2]
//       CHECK:   %[[P2:.*]] = shard.broadcast %[[B2]]
//       CHECK:   %[[P:.*]] = linalg.matmul ins(%[[A]], %[[P2]]
//       CHECK:   %[[BOTH:.*]] = tensor.insert_slice %[[P]] into %{{.*}}[0, 2] [8, 2]
//       CHECK:   %[[FIRST:.*]] = shard.reduce_scatter %[[BOTH]] on @grid grid_axes = [0] scatter_axis = 1 : tensor<8x4xf32> -> tensor<8x2xf32>
//       CHECK:   tensor.extract_slice %[[B]][0, 2] [16, 2]
//       CHECK:   tensor.extract_slice %[[B]][0, 6] [16, 2]
//       CHECK:   %[[SECOND:.*]] = shard.reduce_scatter
//       CHECK:   tensor.insert_slice %[[FIRST]] into %{{.*}}[0, 0] [8, 2]
//       CHECK:   tensor.insert_slice %[[SECOND]] into %{{.*}}[0, 2] [8, 2]
func.func @scattered(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<8x8xf32>
  %all_b = shard.all_gather %b on @grid grid_axes = [1] gather_axis = 1 : tensor<16x8xf32> -> tensor<16x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%none : tensor<8x8xf32>) -> tensor<8x8xf32>
  %sums = linalg.matmul ins(%a, %all_b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%start : tensor<8x8xf32>) -> tensor<8x8xf32>
  %mine = shard.reduce_scatter %sums on @grid grid_axes = [0] scatter_axis = 1 : tensor<8x8xf32> -> tensor<8x4xf32>
  return %mine : tensor<8x4xf32>
}

// Nothing is gathered, and each process keeps rows: panels are of columns.
// CHECK-LABEL: func @rows
//       CHECK:   linalg.matmul {{.*}} -> tensor<8x4xf32>
//       CHECK:   shard.reduce_scatter {{.*}} scatter_axis = 0 : tensor<8x4xf32> -> tensor<4x4xf32>
//       CHECK:   linalg.matmul {{.*}} -> tensor<8x4xf32>
//       CHECK:   shard.reduce_scatter {{.*}} scatter_axis = 0 : tensor<8x4xf32> -> tensor<4x4xf32>
//   CHECK-NOT:   linalg.matmul
func.func @rows(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<8x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%none : tensor<8x8xf32>) -> tensor<8x8xf32>
  %sums = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%start : tensor<8x8xf32>) -> tensor<8x8xf32>
  %mine = shard.reduce_scatter %sums on @grid grid_axes = [0] scatter_axis = 0 : tensor<8x8xf32> -> tensor<4x8xf32>
  return %mine : tensor<4x8xf32>
}
