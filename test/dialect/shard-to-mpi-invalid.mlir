// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-to-mpi))' -split-input-file -verify-diagnostics

shard.grid @grid(shape = 4)
func.func @no_messages(%a: tensor<8x4xf32>) -> tensor<2x16xf32> {
  // expected-error @below {{has no messages; expected broadcast, all_gather, reduce_scatter, all_reduce, all_slice or shift}}
  %0 = shard.all_to_all %a on @grid grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<8x4xf32> -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}

// -----

shard.grid @grid(shape = 4)
func.func @maximum(%a: tensor<8x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{a reduction that is no sum; expected sum}}
  %0 = shard.reduce_scatter %a on @grid grid_axes = [0] reduction = max scatter_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

shard.grid @grid(shape = 4)
func.func @half(%a: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  // expected-error @below {{a reduction of 'bf16'; expected a sum of f32, f64, i32 or i64}}
  %0 = shard.all_reduce %a on @grid grid_axes = [0] : tensor<8x4xbf16> -> tensor<8x4xbf16>
  return %0 : tensor<8x4xbf16>
}

// -----

shard.grid @grid(shape = ?)
func.func @dynamic(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{an extent of a tensor or of the grid is dynamic; expected static ones}}
  %0 = shard.all_reduce %a on @grid grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

shard.grid @grid(shape = 4)
func.func @region(%a: tensor<8x4xf32>, %once: i1) -> tensor<8x4xf32> {
  %0 = scf.if %once -> tensor<8x4xf32> {
    // expected-error @below {{a collective in a region; expected it in the function's own block}}
    %1 = shard.all_reduce %a on @grid grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
    scf.yield %1 : tensor<8x4xf32>
  } else {
    scf.yield %a : tensor<8x4xf32>
  }
  return %0 : tensor<8x4xf32>
}

// -----

module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "LAM">} {
shard.grid @grid(shape = 4)
// expected-error @below {{the module's "MPI:Implementation" is "LAM"; expected "OpenMPI" or "MPICH"}}
func.func @unknown(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = shard.all_reduce %a on @grid grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
}

// -----

shard.grid @line(shape = 4)
shard.grid @square(shape = 2x2)
func.func @grids(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = shard.all_reduce %a on @line grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  // expected-error @below {{a second grid, @square; expected one in a function, which is @line}}
  %1 = shard.all_reduce %0 on @square grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// -----

// Of a complex number each part is an element of a message.
shard.grid @grid(shape = 2)
func.func @many(%a: tensor<32768x32768xcomplex<f32>>) -> tensor<32768x65536xcomplex<f32>> {
  // expected-error @below {{a tensor of more than 1073741823 elements; expected as many as MPI's counts can say, at most}}
  %0 = shard.all_gather %a on @grid grid_axes = [0] gather_axis = 1 : tensor<32768x32768xcomplex<f32>> -> tensor<32768x65536xcomplex<f32>>
  return %0 : tensor<32768x65536xcomplex<f32>>
}
