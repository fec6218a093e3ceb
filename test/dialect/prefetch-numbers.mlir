// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -tilewright-prefetch-numbers -canonicalize | FileCheck %s

// A row of 32 scales is two lines: both are prefetched eight steps ahead, before the loop that loads them one by one. Of what the
// outer loop does not move on, nothing is.
// CHECK: #[[AHEAD:.*]] = affine_map<(d0) -> (d0 + 8)>
// CHECK-LABEL: func @rows
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: %[[ROW:.*]] = affine.apply #[[AHEAD]](%[[I]])
// CHECK: memref.prefetch %arg0[%[[ROW]], %c0], read, locality<3>
// CHECK: memref.prefetch %arg0[%{{.*}}, %c16], read, locality<3>
// CHECK-NOT: memref.prefetch
// CHECK: return
func.func @rows(%scales: memref<1024x32xf32, strided<[?, 1]>>, %same: memref<1024x32xf32, strided<[?, 1]>>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c1024 step %c1 iter_args(%s = %zero) -> f32 {
    %t = scf.for %j = %c0 to %c32 step %c1 iter_args(%u = %s) -> f32 {
      %x = memref.load %scales[%i, %j] : memref<1024x32xf32, strided<[?, 1]>>
      %y = memref.load %same[%c1, %j] : memref<1024x32xf32, strided<[?, 1]>>
      %v = arith.mulf %x, %y : f32
      %w = arith.addf %u, %v : f32
      scf.yield %w : f32
    }
    scf.yield %t : f32
  }
  return %r : f32
}

// What the row is computed from may be in the inner loop, and is computed anew then.
// CHECK-LABEL: func @computed_inside
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: %[[LAST:.*]] = arith.subi %arg1, %c1
// CHECK: %[[ROW:.*]] = arith.minui %{{.*}}, %[[LAST]]
// CHECK: memref.prefetch %arg0[%[[ROW]], %c0], read, locality<3>
// CHECK: scf.for
func.func @computed_inside(%scales: memref<1024x16xf32, strided<[?, 1]>>, %rows: index) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c1024 step %c1 iter_args(%s = %zero) -> f32 {
    %t = scf.for %j = %c0 to %c16 step %c1 iter_args(%u = %s) -> f32 {
      %last = arith.subi %rows, %c1 : index
      %row = arith.minui %i, %last : index
      %x = memref.load %scales[%row, %j] : memref<1024x16xf32, strided<[?, 1]>>
      %w = arith.addf %u, %x : f32
      scf.yield %w : f32
    }
    scf.yield %t : f32
  }
  return %r : f32
}
