// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-streams{cache-bytes=65536 held-bytes=131072}))' -split-input-file | FileCheck %s
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-streams{cache-bytes=65536 held-bytes=131072 ahead-bytes=16384}))' -split-input-file | FileCheck %s --check-prefix=FAR
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-streams{cache-bytes=65536 held-bytes=131072 rows-ahead=3}))' -split-input-file | FileCheck %s --check-prefix=NEAR

// To be 16 KiB ahead takes two steps.
// FAR: affine_map<()[s0] -> (s0 + 16)>
// FAR-LABEL: func @rows
// The next step of the outer loop reads eight rows of 1 KiB: they fit, and are more than six KiB ahead.
// CHECK: #[[EIGHT:.*]] = affine_map<()[s0] -> (s0 + 8)>
// CHECK-LABEL: func @rows
//  CHECK-SAME:   (%[[B:[a-z0-9]+]]: memref<256x256xf32>
//       CHECK:   scf.for %[[P:[a-z0-9]+]] =
//       CHECK:     scf.for %[[J:[a-z0-9]+]] =
//       CHECK:       scf.for %[[K:[a-z0-9]+]] =
//       CHECK:         %[[NEXT:.*]] = affine.apply #[[EIGHT]]()[%[[P]]]
//       CHECK:         %[[SLICE:.*]] = memref.subview %[[B]][%[[NEXT]], %[[J]]]
// CHECK-COUNT-2:       memref.prefetch %[[SLICE]][{{.*}}], read, locality<2>, data
//   CHECK-NOT:         memref.prefetch
//       CHECK:         vector.transfer_read
func.func @rows(%b: memref<256x256xf32>, %acc: vector<1x32xf32>) -> vector<1x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %c256 = arith.constant 256 : index
  %pad = arith.constant 0.0 : f32
  %sum = scf.for %p = %c0 to %c256 step %c8 iter_args(%x = %acc) -> vector<1x32xf32> {
    %s = scf.for %j = %c0 to %c256 step %c32 iter_args(%y = %x) -> vector<1x32xf32> {
      %slice = memref.subview %b[%p, %j] [8, 32] [1, 1] : memref<256x256xf32> to memref<8x32xf32, strided<[256, 1], offset: ?>>
      %t = scf.for %k = %c0 to %c8 step %c1 iter_args(%z = %y) -> vector<1x32xf32> {
        %row = vector.transfer_read %slice[%k, %c0], %pad {in_bounds = [true, true]} : memref<8x32xf32, strided<[256, 1], offset: ?>>, vector<1x32xf32>
        %next = arith.addf %z, %row : vector<1x32xf32>
        scf.yield %next : vector<1x32xf32>
      }
      scf.yield %t : vector<1x32xf32>
    }
    scf.yield %s : vector<1x32xf32>
  }
  return %sum : vector<1x32xf32>
}

// -----

// A loop that reads the same again, an operand that fits, a copy, a stream along a row of one that the last level holds, and
// one that reads a line in parts.
// With rows-ahead, what goes down rows has those of three steps later brought into L1: two lines of each matrix that is read again or
// fits. Copies, and what goes along a row, do not.
// NEAR: #[[THREE:.*]] = affine_map<()[s0] -> (s0 + 3)>
// NEAR-LABEL: func @others
//  NEAR-SAME:   (%[[AGAIN:[a-z0-9]+]]: memref<256x256xf32>, %[[SMALL:[a-z0-9]+]]: memref<64x256xf32>
//       NEAR:   scf.for %[[I:[a-z0-9]+]] =
//       NEAR:     scf.for %[[K:[a-z0-9]+]] =
//       NEAR:       affine.apply #[[THREE]]()[%[[K]]]
// NEAR-COUNT-2:     memref.prefetch %[[AGAIN]][{{.*}}], read, locality<3>, data
//   NEAR-NOT:       memref.prefetch
//       NEAR:     }
//       NEAR:     affine.apply #[[THREE]]()[%[[I]]]
// NEAR-COUNT-2:   memref.prefetch %[[SMALL]][{{.*}}], read, locality<3>, data
//   NEAR-NOT:   memref.prefetch
//       NEAR:   return

// CHECK-LABEL: func @others
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @others(%again: memref<256x256xf32>, %small: memref<64x256xf32>, %copy: memref<256x256xf32>, %along: memref<1x32768xf32>, %parts: memref<1x262144xf32>, %acc: vector<1x32xf32>) -> vector<1x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %pad = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%x = %acc) -> vector<1x32xf32> {
    %s = scf.for %k = %c0 to %c64 step %c1 iter_args(%y = %x) -> vector<1x32xf32> {
      %a = vector.transfer_read %again[%k, %c0], %pad {in_bounds = [true, true]} : memref<256x256xf32>, vector<1x32xf32>
      %s0 = arith.addf %y, %a : vector<1x32xf32>
      %c = vector.transfer_read %copy[%i, %k], %pad {in_bounds = [true, true]} : memref<256x256xf32>, vector<1x32xf32>
      vector.transfer_write %c, %copy[%k, %i] {in_bounds = [true, true]} : vector<1x32xf32>, memref<256x256xf32>
      scf.yield %s0 : vector<1x32xf32>
    }
    %b = vector.transfer_read %small[%i, %c0], %pad {in_bounds = [true, true]} : memref<64x256xf32>, vector<1x32xf32>
    %s1 = arith.addf %s, %b : vector<1x32xf32>
    scf.yield %s1 : vector<1x32xf32>
  }
  %row = scf.for %j = %c0 to %c64 step %c32 iter_args(%y = %sum) -> vector<1x32xf32> {
    %part = vector.transfer_read %parts[%c0, %j], %pad {in_bounds = [true, true]} : memref<1x262144xf32>, vector<1x1xf32>
    %d = vector.transfer_read %along[%c0, %j], %pad {in_bounds = [true, true]} : memref<1x32768xf32>, vector<1x32xf32>
    %wide = vector.broadcast %part : vector<1x1xf32> to vector<1x32xf32>
    %s3 = arith.addf %y, %wide : vector<1x32xf32>
    %s2 = arith.addf %s3, %d : vector<1x32xf32>
    scf.yield %s2 : vector<1x32xf32>
  }
  return %row : vector<1x32xf32>
}

// -----

// Sums that a loop over tiles starts from are none: it carries nothing.
// NEAR-LABEL: func @sums
//   NEAR-NOT:   memref.prefetch
//       NEAR:   return
// CHECK-LABEL: func @sums
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @sums(%c: memref<64x256xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %pad = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c64 step %c1 {
    %tile = vector.transfer_read %c[%i, %c0], %pad {in_bounds = [true, true]} : memref<64x256xf32>, vector<1x32xf32>
    %sum = scf.for %k = %c0 to %c64 step %c1 iter_args(%x = %tile) -> vector<1x32xf32> {
      %next = arith.addf %x, %x : vector<1x32xf32>
      scf.yield %next : vector<1x32xf32>
    }
    vector.transfer_write %sum, %c[%i, %c0] {in_bounds = [true, true]} : vector<1x32xf32>, memref<64x256xf32>
  }
  return
}

// -----

// Rows of packed panels too, of which a matrix of scratch has several.
// NEAR-LABEL: func @panels
//       NEAR:   %[[PANELS:.*]] = memref.alloc() : memref<4x64x32xf32>
//       NEAR:   scf.for %[[K:[a-z0-9]+]] =
//       NEAR:     %[[AHEAD:.*]] = affine.apply #{{.*}}()[%[[K]]]
// NEAR-COUNT-2:   memref.prefetch %[[PANELS]][{{.*}}], read, locality<3>, data
//   NEAR-NOT:     memref.prefetch
//       NEAR:     vector.transfer_read
//       NEAR:   return
// CHECK-LABEL: func @panels
//   CHECK-NOT:   memref.prefetch
//       CHECK:   return
func.func @panels(%panel: index, %acc: vector<1x32xf32>) -> vector<1x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %pad = arith.constant 0.0 : f32
  %panels = memref.alloc() : memref<4x64x32xf32>
  %sum = scf.for %k = %c0 to %c64 step %c1 iter_args(%x = %acc) -> vector<1x32xf32> {
    %row = vector.transfer_read %panels[%panel, %k, %c0], %pad {in_bounds = [true, true]} : memref<4x64x32xf32>, vector<1x32xf32>
    %next = arith.addf %x, %row : vector<1x32xf32>
    scf.yield %next : vector<1x32xf32>
  }
  return %sum : vector<1x32xf32>
}
