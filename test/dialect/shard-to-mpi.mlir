// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-to-mpi),canonicalize,cse)' | FileCheck %s
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-shard-to-mpi{ahead=0}),canonicalize,cse)' | FileCheck %s --check-prefix=LATE

module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI">} {
shard.grid @grid(shape = 2x4)

// The communicator is an argument, and what MPI returns is a result. The second panel is on its way while the first one is multiplied: it is
// received and, by the process that has it, sent before the product, and passed on after it.
// CHECK-LABEL: func @panels
//  CHECK-SAME:   (%[[A:.*]]: tensor<8x4xf32>, {{.*}}, %[[COMM:.*]]: !mpi.comm {tilewright.axes = array<i16: 1>}) -> (tensor<8x6xf32>, i32)
//   CHECK-DAG:   %[[NOBODY:.*]] = arith.constant -2 : i32
//   CHECK-DAG:   %[[TAG:.*]] = arith.constant 2 : i32
//       CHECK:   mpi.comm_rank(%[[COMM]])
//       CHECK:   mpi.isend
//       CHECK:   mpi.irecv
//       CHECK:   mpi.wait
//       CHECK:   mpi.isend
//       CHECK:   %[[BLOCK:.*]] = memref.alloc() : memref<8x4xf32>
//       CHECK:   scf.if
//       CHECK:     linalg.copy ins(%{{.*}}) outs(%[[BLOCK]]
//       CHECK:   %[[FLAT:.*]] = memref.collapse_shape %[[BLOCK]]
//       CHECK:   mpi.isend(%[[FLAT]], %[[TAG]]
//       CHECK:   %{{.*}}, %[[COMING:.*]] = mpi.irecv(%[[FLAT]], %[[TAG]]
//       CHECK:   linalg.matmul
//       CHECK:   mpi.wait(%[[COMING]])
//       CHECK:   mpi.isend(%[[FLAT]], %[[TAG]]
//       CHECK:   linalg.matmul
//   CHECK-NOT:   mpi.irecv
//       CHECK:   memref.dealloc %[[BLOCK]]
//   CHECK-NOT:   mpi.comm_split
// LATE-LABEL: func @panels
//       LATE:   mpi.irecv
//       LATE:   linalg.matmul
//       LATE:   memref.dealloc
//       LATE:   mpi.irecv
//       LATE:   linalg.matmul
func.func @panels(%a: tensor<8x4xf32>, %b0: tensor<4x6xf32>, %b1: tensor<4x6xf32>, %c: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %a0 = shard.broadcast %a on @grid grid_axes = [1] root = [0] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c0 = linalg.matmul ins(%a0, %b0 : tensor<8x4xf32>, tensor<4x6xf32>) outs(%c : tensor<8x6xf32>) -> tensor<8x6xf32>
  %a1 = shard.broadcast %a on @grid grid_axes = [1] root = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c1 = linalg.matmul ins(%a1, %b1 : tensor<8x4xf32>, tensor<4x6xf32>) outs(%c0 : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %c1 : tensor<8x6xf32>
}

// Rows are received where they belong; the block goes to each of the three others.
// CHECK-LABEL: func @gather_rows
//       CHECK:   %[[ALL:.*]] = memref.alloc() : memref<8x6xf32>
// CHECK-COUNT-3: mpi.irecv(%{{.*}}) : memref<12xf32, strided<[1], offset: ?>>
// CHECK-COUNT-3: mpi.isend(%{{.*}}) : memref<12xf32, strided<[1], offset: ?>>
// CHECK-COUNT-6: mpi.wait
//   CHECK-NOT:   mpi.wait
//       CHECK:   bufferization.to_tensor %[[ALL]]
func.func @gather_rows(%block: tensor<2x6xf32>) -> tensor<8x6xf32> {
  %all = shard.all_gather %block on @grid grid_axes = [1] gather_axis = 0 : tensor<2x6xf32> -> tensor<8x6xf32>
  return %all : tensor<8x6xf32>
}

// Columns are copied there, from blocks one below the other.
// CHECK-LABEL: func @gather_columns
//       CHECK:   %[[ALL:.*]] = memref.alloc() : memref<2x12xf32>
//       CHECK:   memref.alloc() : memref<4x6xf32>
//       CHECK:   mpi.irecv
//       CHECK:   mpi.isend
//       CHECK:   memref.subview %[[ALL]][0, 6] [2, 6]
func.func @gather_columns(%block: tensor<2x6xf32>) -> tensor<2x12xf32> {
  %all = shard.all_gather %block on @grid grid_axes = [0] gather_axis = 1 : tensor<2x6xf32> -> tensor<2x12xf32>
  return %all : tensor<2x12xf32>
}

// Parts are added up in the order of processes.
// CHECK-LABEL: func @scatter
//       CHECK:   mpi.irecv
//       CHECK:   mpi.isend
//       CHECK:   linalg.copy ins(%[[FIRST:.*]] : {{.*}}) outs(%[[SUMS:.*]] : memref<4x3xf32>)
//       CHECK:   linalg.add ins(%[[SUMS]], %{{.*}}) outs(%[[SUMS]]
//   CHECK-NOT:   linalg.add
func.func @scatter(%part: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %mine = shard.reduce_scatter %part on @grid grid_axes = [0] scatter_axis = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  return %mine : tensor<4x3xf32>
}

// What goes on its way is a copy; it is waited for, and added up, after the next product.
// CHECK-LABEL: func @overlapped
//       CHECK:   linalg.matmul
//       CHECK:   linalg.copy
//       CHECK:   mpi.irecv
//       CHECK:   mpi.isend
//   CHECK-NOT:   mpi.wait
//       CHECK:   linalg.matmul
// CHECK-COUNT-2: mpi.wait
//       CHECK:   linalg.add
//       CHECK:   linalg.copy
//       CHECK:   mpi.irecv
// LATE-LABEL: func @overlapped
//       LATE:   linalg.matmul
//       LATE:   mpi.irecv
//       LATE:   mpi.wait
//       LATE:   linalg.matmul
func.func @overlapped(%a: tensor<4x6xf32>, %b: tensor<6x6xf32>, %c: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %0 = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %first = shard.reduce_scatter %0 on @grid grid_axes = [0] scatter_axis = 0 : tensor<4x6xf32> -> tensor<2x6xf32>
  %1 = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x6xf32>) outs(%0 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %second = shard.reduce_scatter %1 on @grid grid_axes = [0] scatter_axis = 0 : tensor<4x6xf32> -> tensor<2x6xf32>
  return %first, %second : tensor<2x6xf32>, tensor<2x6xf32>
}

// A number is a message of one element.
// CHECK-LABEL: func @number
//       CHECK:   memref.expand_shape
//       CHECK:   mpi.allreduce(%{{.*}}) : memref<1xf32>, memref<1xf32>
func.func @number(%part: tensor<f32>) -> tensor<f32> {
  %sums = shard.all_reduce %part on @grid grid_axes = [0] : tensor<f32> -> tensor<f32>
  return %sums : tensor<f32>
}

// CHECK-LABEL: func @reduce
//       CHECK:   mpi.allreduce(%{{.*}}, %{{.*}}, MPI_SUM, %{{.*}}) : memref<24xf64>, memref<24xf64>
func.func @reduce(%part: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %sums = shard.all_reduce %part on @grid grid_axes = [0, 1] : tensor<4x6xf64> -> tensor<4x6xf64>
  return %sums : tensor<4x6xf64>
}

// CHECK-LABEL: func @slice
//       CHECK:   %[[AT:.*]] = affine.apply
//       CHECK:   tensor.extract_slice %{{.*}}[%[[AT]], 0] [2, 6]
//   CHECK-NOT:   mpi.isend
func.func @slice(%whole: tensor<8x6xf64>) -> tensor<2x6xf64> {
  %mine = shard.all_slice %whole on @grid grid_axes = [1] slice_axis = 0 : tensor<8x6xf64> -> tensor<2x6xf64>
  return %mine : tensor<2x6xf64>
}

// In a circle everyone has a partner; else the last ones send to nobody.
// CHECK-LABEL: func @rotate
//   CHECK-NOT:   arith.constant -2
//       CHECK:   mpi.irecv
//       CHECK:   mpi.isend
// CHECK-LABEL: func @shift
//       CHECK:   arith.constant -2
//       CHECK:   mpi.irecv
//       CHECK:   mpi.isend
func.func @rotate(%block: tensor<4xi8>) -> tensor<4xi8> {
  %next = shard.shift %block on @grid grid_axes = [1] shift_axis = 1 offset = 1 rotate : tensor<4xi8> -> tensor<4xi8>
  return %next : tensor<4xi8>
}
func.func @shift(%block: tensor<4xi8>) -> tensor<4xi8> {
  %next = shard.shift %block on @grid grid_axes = [1] shift_axis = 1 offset = 1 : tensor<4xi8> -> tensor<4xi8>
  return %next : tensor<4xi8>
}

// A place in the grid is a place among its processes: no question to MPI_COMM_WORLD.
// CHECK-LABEL: func @place
//       CHECK:   mpi.comm_rank
//   CHECK-NOT:   mpi.comm_world
func.func @place() -> index {
  %row, %column = shard.process_multi_index on @grid : index, index
  return %column : index
}
}
