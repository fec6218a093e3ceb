// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-tiles))' -split-input-file | FileCheck %s
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-tiles{line-bytes=128}))' -split-input-file | FileCheck %s --check-prefix=LONG

// The tile below the one that the loop starts from: two rows of two lines each.
// CHECK-LABEL: func @accumulates
//   CHECK-SAME:   (%[[C:.*]]: memref<64x64xf32>, %[[I:.*]]: index, %[[J:.*]]: index
//        CHECK:   scf.if
//        CHECK:   vector.transfer_read %[[C]]
// CHECK-COUNT-4:  memref.prefetch %[[C]][{{.*}}], write, locality<3>, data
//    CHECK-NOT:   memref.prefetch
//        CHECK:   scf.for
//    CHECK-NOT:   memref.prefetch
// LONG-LABEL: func @accumulates
// LONG-COUNT-2: memref.prefetch
//    LONG-NOT:  memref.prefetch
func.func @accumulates(%c: memref<64x64xf32>, %i: index, %j: index, %first: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %zero = arith.constant dense<0.0> : vector<2x32xf32>
  %start = scf.if %first -> vector<2x32xf32> {
    scf.yield %zero : vector<2x32xf32>
  } else {
    %tile = vector.transfer_read %c[%i, %j], %pad {in_bounds = [true, true]} : memref<64x64xf32>, vector<2x32xf32>
    scf.yield %tile : vector<2x32xf32>
  }
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %start) -> vector<2x32xf32> {
    %next = arith.addf %acc, %zero : vector<2x32xf32>
    scf.yield %next : vector<2x32xf32>
  }
  vector.transfer_write %sum, %c[%i, %j] {in_bounds = [true, true]} : vector<2x32xf32>, memref<64x64xf32>
  return
}

// -----

// A tile that no loop starts from, and one that may leave the memref, are left alone.
// CHECK-LABEL: func @others
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @others(%c: memref<?x?xf32>, %n: index) -> vector<2x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %alone = vector.transfer_read %c[%c0, %c0], %pad {in_bounds = [true, true]} : memref<?x?xf32>, vector<2x32xf32>
  %partial = vector.transfer_read %c[%c0, %c0], %pad : memref<?x?xf32>, vector<2x32xf32>
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %partial) -> vector<2x32xf32> {
    %next = arith.addf %acc, %alone : vector<2x32xf32>
    scf.yield %next : vector<2x32xf32>
  }
  return %sum : vector<2x32xf32>
}

// -----

// No tile lies below one that has all rows.
// CHECK-LABEL: func @last
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @last(%c: memref<2x64xf32>, %j: index, %n: index) -> vector<2x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %start = vector.transfer_read %c[%c0, %j], %pad {in_bounds = [true, true]} : memref<2x64xf32>, vector<2x32xf32>
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %start) -> vector<2x32xf32> {
    %next = arith.addf %acc, %acc : vector<2x32xf32>
    scf.yield %next : vector<2x32xf32>
  }
  return %sum : vector<2x32xf32>
}

// -----

// Nor below one that has fewer, where another tile of the same memref, which a loop hands on, has all: there is one tile at most.
// CHECK-LABEL: func @fewer
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @fewer(%n: index, %m: index) -> vector<1x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %c = memref.alloc() : memref<2x64xf32>
  %zero = arith.constant dense<0.0> : vector<1x32xf32>
  %all = vector.transfer_read %c[%c0, %c0], %pad {in_bounds = [true, true]} : memref<2x64xf32>, vector<2x32xf32>
  %last, %sum = scf.for %i = %c0 to %m step %c1 iter_args(%d = %c, %s = %zero) -> (memref<2x64xf32>, vector<1x32xf32>) {
    %tile = vector.transfer_read %d[%c0, %c0], %pad {in_bounds = [true, true]} : memref<2x64xf32>, vector<1x32xf32>
    %added = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %tile) -> vector<1x32xf32> {
      %next = arith.addf %acc, %zero : vector<1x32xf32>
      scf.yield %next : vector<1x32xf32>
    }
    scf.yield %d, %added : memref<2x64xf32>, vector<1x32xf32>
  }
  vector.print %all : vector<2x32xf32>
  return %sum : vector<1x32xf32>
}
