// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(tilewright-mpi-to-llvm,reconcile-unrealized-casts)' | FileCheck %s
// RUN: sed 's/"OpenMPI"/"MPICH"/' %s | tilewright-opt -pass-pipeline='builtin.module(tilewright-mpi-to-llvm,reconcile-unrealized-casts)' | FileCheck %s --check-prefix=MPICH
// RUN: sed 's/xbf16/xi4/' %s | not tilewright-opt -pass-pipeline='builtin.module(tilewright-mpi-to-llvm)' 2>&1 | FileCheck %s --check-prefix=WRONG

module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI">} {
// A buffer is a pointer, a communicator 64 bits; where a send fails, the wait has nothing to wait for.
// CHECK-LABEL: llvm.func @exchange
//  CHECK-SAME:   (%[[BUFFER:.*]]: !llvm.ptr, %[[COMM:.*]]: i64, %[[TO:.*]]: i32) -> i32
//       CHECK:   %[[SLOT:.*]] = llvm.alloca
//       CHECK:   llvm.store %{{.*}}, %[[SLOT]]
//       CHECK:   %[[COUNT:.*]] = llvm.mlir.constant(24 : i32)
//       CHECK:   %[[TYPE:.*]] = llvm.mlir.addressof @ompi_mpi_int16_t
//       CHECK:   %[[HANDLE:.*]] = llvm.inttoptr %[[COMM]]
//       CHECK:   llvm.call @MPI_Isend(%{{.*}}, %[[COUNT]], %[[TYPE]], %[[TO]], %{{.*}}, %[[HANDLE]], %[[SLOT]])
//       CHECK:   %[[CODE:.*]] = llvm.call @MPI_Wait(%[[SLOT]], %{{.*}})
//       CHECK:   llvm.return %[[CODE]] : i32
// MPICH-LABEL: llvm.func @exchange
//       MPICH:   %[[NONE:.*]] = llvm.mlir.constant(738197504 : i32)
//       MPICH:   llvm.store %[[NONE]]
//       MPICH:   %[[TYPE:.*]] = llvm.mlir.constant(1275068984 : i32)
//       MPICH:   %[[HANDLE:.*]] = llvm.trunc %{{.*}} : i64 to i32
//       MPICH:   llvm.call @MPI_Isend(%{{.*}}, %{{.*}}, %[[TYPE]], %{{.*}}, %{{.*}}, %[[HANDLE]], %{{.*}})
// WRONG: error: {{.*}}a message of 'memref<24xi4>'; expected contiguous elements of 8, 16, 32 or 64 bits in one static dimension
func.func @exchange(%buffer: memref<24xbf16>, %comm: !mpi.comm, %to: i32) -> i32 {
  %tag = arith.constant 1 : i32
  %request = mpi.isend(%buffer, %tag, %to, %comm) : memref<24xbf16>, i32, i32 -> !mpi.request
  %code = mpi.wait(%request) : !mpi.request -> !mpi.retval
  %number = builtin.unrealized_conversion_cast %code : !mpi.retval to i32
  return %number : i32
}

// Upstream's pattern would name a symbol that Open MPI lacks.
// CHECK-LABEL: llvm.func @sum
//   CHECK-DAG:   llvm.mlir.addressof @ompi_mpi_double
//   CHECK-DAG:   llvm.mlir.addressof @ompi_mpi_op_sum
//       CHECK:   llvm.call @MPI_Allreduce
// MPICH-LABEL: llvm.func @sum
//   MPICH-DAG:   llvm.mlir.constant(1275070475 : i32)
//   MPICH-DAG:   llvm.mlir.constant(1476395011 : i32)
//       MPICH:   llvm.call @MPI_Allreduce
func.func @sum(%part: memref<24xf64>, %sums: memref<24xf64>, %comm: !mpi.comm) {
  mpi.allreduce(%part, %sums, MPI_SUM, %comm) : memref<24xf64>, memref<24xf64>
  return
}
}
