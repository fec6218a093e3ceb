// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-streams{open=true}))' | FileCheck %s
// RUN: tilewright-opt %s -pass-pipeline='builtin.module(func.func(tilewright-prefetch-streams))' | FileCheck %s --check-prefix=SMALL

// An operand of unknown size, eight rows of it at most for each step of the loop over columns: a step reads 512 bytes, so that
// six KiB are twelve steps. How often the loop over i repeats it does not matter.
// SMALL-NOT: memref.prefetch
// CHECK: #[[AHEAD:.*]] = affine_map<()[s0, s1] -> (s0 + s1 * 12)>
// CHECK-LABEL: func @rows
//  CHECK-SAME:   (%[[B:[a-z0-9]+]]: memref<?x?xf32>
//       CHECK:   scf.for %[[J:[a-z0-9]+]] =
//       CHECK:     scf.for
//       CHECK:       scf.for %[[K:[a-z0-9]+]] =
//       CHECK:         affine.apply #[[AHEAD]]()[%[[J]]
//   CHECK-COUNT-1:     memref.prefetch
//   CHECK-NOT:         memref.prefetch
//       CHECK:         vector.transfer_read
func.func @rows(%b: memref<?x?xf32>, %m: index, %n: index, %k: index, %step: index, %acc: vector<1x16xf32>) -> vector<1x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %most = affine.min affine_map<()[s0] -> (8, s0)>()[%k]
  %sum = scf.for %j = %c0 to %n step %step iter_args(%x = %acc) -> vector<1x16xf32> {
    %s = scf.for %i = %c0 to %m step %c1 iter_args(%y = %x) -> vector<1x16xf32> {
      %t = scf.for %l = %c0 to %most step %c1 iter_args(%z = %y) -> vector<1x16xf32> {
        %row = vector.transfer_read %b[%l, %j], %pad {in_bounds = [true, true]} : memref<?x?xf32>, vector<1x16xf32>
        %next = arith.addf %z, %row : vector<1x16xf32>
        scf.yield %next : vector<1x16xf32>
      }
      scf.yield %t : vector<1x16xf32>
    }
    scf.yield %s : vector<1x16xf32>
  }
  return %sum : vector<1x16xf32>
}

// Where the row ends in a known place, and what a pass over it reads may wait in the cache, the next rows are fetched, eight steps on.
// CHECK-LABEL: func @next_rows
//  CHECK-SAME:   (%[[B:[a-z0-9]+]]: memref<?x?xf32>
//       CHECK:   scf.for %[[P:[a-z0-9]+]] =
//       CHECK:         affine.apply {{.*}}()[%[[P]]]
//   CHECK-COUNT-1:     memref.prefetch
//       CHECK:         vector.transfer_read
func.func @next_rows(%b: memref<?x?xf32>, %n: index, %k: index, %step: index, %acc: vector<1x16xf32>) -> vector<1x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %pad = arith.constant 0.0 : f32
  %most = affine.min affine_map<()[s0] -> (1024, s0)>()[%n]
  %sum = scf.for %p = %c0 to %k step %c8 iter_args(%x = %acc) -> vector<1x16xf32> {
    %s = scf.for %j = %c0 to %most step %step iter_args(%y = %x) -> vector<1x16xf32> {
      %t = scf.for %l = %c0 to %c8 step %c1 iter_args(%z = %y) -> vector<1x16xf32> {
        %at = affine.apply affine_map<()[s0, s1] -> (s0 + s1)>()[%p, %l]
        %row = vector.transfer_read %b[%at, %j], %pad {in_bounds = [true, true]} : memref<?x?xf32>, vector<1x16xf32>
        %next = arith.addf %z, %row : vector<1x16xf32>
        scf.yield %next : vector<1x16xf32>
      }
      scf.yield %t : vector<1x16xf32>
    }
    scf.yield %s : vector<1x16xf32>
  }
  return %sum : vector<1x16xf32>
}
