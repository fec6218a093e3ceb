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

// -----

// Over strips of K they are spread: one of two rows in a strip. In a loop over columns the next tile is on the right, and after the last one
// at the start of the rows below.
// CHECK-DAG: #[[TWO:.*]] = affine_map<()[s0] -> (s0 + 2)>
// CHECK-DAG: #[[STEP:.*]] = affine_map<()[s0] -> (s0 + 32)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<()[s0, s1] -> (s1 + s0 floordiv 8)>
// CHECK-LABEL: func @strips
//  CHECK-SAME:   (%[[C:[a-z0-9]+]]: memref<64x64xf32>
//       CHECK:   scf.for %[[I:[a-z0-9]+]] =
//       CHECK:     scf.for %[[J:[a-z0-9]+]] = %{{.*}} to %[[END:[a-z0-9]+]]
//       CHECK:       %[[BELOW:.*]] = affine.apply #[[TWO]]()[%[[I]]]
//       CHECK:       %[[NEXT:.*]] = affine.apply #[[STEP]]()[%[[J]]]
//       CHECK:       %[[MORE:.*]] = arith.cmpi ult, %[[NEXT]], %[[END]]
//       CHECK:       %[[DOWN:.*]] = arith.select %[[MORE]], %[[I]], %[[BELOW]]
//       CHECK:       %[[OVER:.*]] = arith.select %[[MORE]]
//       CHECK:       scf.for %[[S:[a-z0-9]+]] = {{.*}} step %c8 iter_args
//       CHECK:         %[[PLACE:.*]] = affine.apply #[[ROW]]()[%[[S]], %[[DOWN]]]
// CHECK-COUNT-2:       memref.prefetch %[[C]][{{.*}}], write, locality<3>, data
//   CHECK-NOT:         memref.prefetch
//       CHECK:         scf.for
//   CHECK-NOT:         memref.prefetch
//  LONG-LABEL: func @strips
func.func @strips(%c: memref<64x64xf32>, %zero: vector<2x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %pad = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c64 step %c2 {
    scf.for %j = %c0 to %c64 step %c32 {
      %tile = vector.transfer_read %c[%i, %j], %pad {in_bounds = [true, true]} : memref<64x64xf32>, vector<2x32xf32>
      %sum = scf.for %s = %c0 to %c16 step %c8 iter_args(%x = %tile) -> vector<2x32xf32> {
        %end = arith.addi %s, %c8 : index
        %part = scf.for %k = %s to %end step %c1 iter_args(%y = %x) -> vector<2x32xf32> {
          %next = arith.addf %y, %zero : vector<2x32xf32>
          scf.yield %next : vector<2x32xf32>
        }
        scf.yield %part : vector<2x32xf32>
      }
      vector.transfer_write %sum, %c[%i, %j] {in_bounds = [true, true]} : vector<2x32xf32>, memref<64x64xf32>
    }
  }
  return
}
