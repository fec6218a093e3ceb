// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(tilewright-simplify-shards)' | FileCheck %s

shard.grid @grid(shape = 2x4)

// CHECK-LABEL: func @slice_of_sums
//       CHECK:   shard.reduce_scatter %{{.*}} on @grid grid_axes = [1] scatter_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
//   CHECK-NOT:   shard.all_
func.func @slice_of_sums(%part: tensor<8x4xf32>) -> tensor<2x4xf32> {
  %sums = shard.all_reduce %part on @grid grid_axes = [1] : tensor<8x4xf32> -> tensor<8x4xf32>
  %mine = shard.all_slice %sums on @grid grid_axes = [1] slice_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %mine : tensor<2x4xf32>
}

// Another one needs all of the sums.
// CHECK-LABEL: func @sums_are_used
//       CHECK:   shard.all_reduce
//       CHECK:   shard.all_slice
func.func @sums_are_used(%part: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<2x4xf32>) {
  %sums = shard.all_reduce %part on @grid grid_axes = [1] : tensor<8x4xf32> -> tensor<8x4xf32>
  %mine = shard.all_slice %sums on @grid grid_axes = [1] slice_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %sums, %mine : tensor<8x4xf32>, tensor<2x4xf32>
}

// Processes that differ along another axis are added up.
// CHECK-LABEL: func @other_axis
//       CHECK:   shard.all_reduce
//       CHECK:   shard.all_slice
func.func @other_axis(%part: tensor<8x4xf32>) -> tensor<2x4xf32> {
  %sums = shard.all_reduce %part on @grid grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  %mine = shard.all_slice %sums on @grid grid_axes = [1] slice_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %mine : tensor<2x4xf32>
}

// CHECK-LABEL: func @starts_from_zero
//   CHECK-NOT:   scf.if
//       CHECK:   linalg.fill
func.func @starts_from_zero(%first: i1, %c: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %there = linalg.fill ins(%zero : f32) outs(%c : tensor<8x4xf32>) -> tensor<8x4xf32>
  %start = scf.if %first -> tensor<8x4xf32> {
    scf.yield %there : tensor<8x4xf32>
  } else {
    %empty = tensor.empty() : tensor<8x4xf32>
    %own = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
    scf.yield %own : tensor<8x4xf32>
  }
  return %start : tensor<8x4xf32>
}

// CHECK-LABEL: func @starts_from_c
//       CHECK:   scf.if
func.func @starts_from_c(%first: i1, %c: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %start = scf.if %first -> tensor<8x4xf32> {
    scf.yield %c : tensor<8x4xf32>
  } else {
    %own = linalg.fill ins(%zero : f32) outs(%c : tensor<8x4xf32>) -> tensor<8x4xf32>
    scf.yield %own : tensor<8x4xf32>
  }
  return %start : tensor<8x4xf32>
}
