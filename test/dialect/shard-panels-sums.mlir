// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-panels{per-block=2}))' | FileCheck %s

shard.grid @grid(shape = 2x1)
shard.grid @four(shape = 4)

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

// All processes get the sums: each keeps rows of a panel of columns, which are gathered once the next panel is computed and sent.
// CHECK-LABEL: func @all
//  CHECK-SAME:   (%[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<16x8xf32>)
//       CHECK:   linalg.matmul {{.*}} -> tensor<8x4xf32>
//       CHECK:   %[[FIRST:.*]] = shard.reduce_scatter {{.*}} scatter_axis = 0 : tensor<8x4xf32> -> tensor<4x4xf32>
//       CHECK:   linalg.matmul {{.*}} -> tensor<8x4xf32>
//       CHECK:   %[[SECOND:.*]] = shard.reduce_scatter {{.*}} scatter_axis = 0 : tensor<8x4xf32> -> tensor<4x4xf32>
//       CHECK:   %[[LEFT:.*]] = shard.all_gather %[[FIRST]] {{.*}} gather_axis = 0 : tensor<4x4xf32> -> tensor<8x4xf32>
//       CHECK:   %[[RIGHT:.*]] = shard.all_gather %[[SECOND]]
//       CHECK:   tensor.insert_slice %[[LEFT]] into %{{.*}}[0, 0] [8, 4]
//       CHECK:   tensor.insert_slice %[[RIGHT]] into %{{.*}}[0, 4] [8, 4]
//   CHECK-NOT:   shard.all_reduce
func.func @all(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<8x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%none : tensor<8x8xf32>) -> tensor<8x8xf32>
  %sums = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%start : tensor<8x8xf32>) -> tensor<8x8xf32>
  %all = shard.all_reduce %sums on @grid grid_axes = [0] : tensor<8x8xf32> -> tensor<8x8xf32>
  return %all : tensor<8x8xf32>
}

// Four processes cannot share six rows: they share columns, and panels are of rows. Seven by five cannot be shared.
// CHECK-LABEL: func @odd
//       CHECK:   shard.reduce_scatter {{.*}} scatter_axis = 1 : tensor<3x8xf32> -> tensor<3x2xf32>
//       CHECK:   shard.all_gather {{.*}} gather_axis = 1 : tensor<3x2xf32> -> tensor<3x8xf32>
//       CHECK:   shard.all_reduce {{.*}} tensor<7x5xf32>
func.func @odd(%a: tensor<6x16xf32>, %b: tensor<16x8xf32>, %c: tensor<7x16xf32>, %d: tensor<16x5xf32>)
    -> (tensor<6x8xf32>, tensor<7x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<6x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%none : tensor<6x8xf32>) -> tensor<6x8xf32>
  %sums = linalg.matmul ins(%a, %b : tensor<6x16xf32>, tensor<16x8xf32>) outs(%start : tensor<6x8xf32>) -> tensor<6x8xf32>
  %all = shard.all_reduce %sums on @four grid_axes = [0] : tensor<6x8xf32> -> tensor<6x8xf32>
  %nothing = tensor.empty() : tensor<7x5xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%nothing : tensor<7x5xf32>) -> tensor<7x5xf32>
  %more = linalg.matmul ins(%c, %d : tensor<7x16xf32>, tensor<16x5xf32>) outs(%begin : tensor<7x5xf32>) -> tensor<7x5xf32>
  %others = shard.all_reduce %more on @four grid_axes = [0] : tensor<7x5xf32> -> tensor<7x5xf32>
  return %all, %others : tensor<6x8xf32>, tensor<7x5xf32>
}
