// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --split-input-file | FileCheck %s

#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>

module attributes {transform.with_named_sequence} {
  // Two rows of three registers: six accumulators, each carried by the loop on its own, and six products a step.

  // CHECK-LABEL: func.func @accumulators
  // CHECK-COUNT-6: vector.transfer_read %{{.*}} : memref<2x12xf32>, vector<1x4xf32>
  // CHECK: scf.for {{.*}} -> (vector<1x4xf32>, vector<1x4xf32>, vector<1x4xf32>, vector<1x4xf32>, vector<1x4xf32>, vector<1x4xf32>)
  // CHECK-NOT: vector<2x12xf32>
  // CHECK-COUNT-6: vector.contract {{.*}} into vector<1x4xf32>
  // CHECK-NOT: vector.contract
  // CHECK: scf.yield
  // CHECK-COUNT-6: vector.transfer_write %{{.*}} : vector<1x4xf32>, memref<2x12xf32>
  // CHECK-NOT: vector.transfer_write
  // CHECK: return
  func.func @accumulators(%a: memref<2x9xf32>, %b: memref<9x12xf32>, %c: memref<2x12xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %start = vector.transfer_read %c[%c0, %c0], %z {in_bounds = [true, true]} : memref<2x12xf32>, vector<2x12xf32>
    %sum = scf.for %k = %c0 to %c9 step %c1 iter_args(%acc = %start) -> vector<2x12xf32> {
      %x = vector.transfer_read %a[%c0, %k], %z {in_bounds = [true, true]} : memref<2x9xf32>, vector<2x1xf32>
      %y = vector.transfer_read %b[%k, %c0], %z {in_bounds = [true, true]} : memref<9x12xf32>, vector<1x12xf32>
      %n = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %x, %y, %acc : vector<2x1xf32>, vector<1x12xf32> into vector<2x12xf32>
      scf.yield %n : vector<2x12xf32>
    }
    vector.transfer_write %sum, %c[%c0, %c0] {in_bounds = [true, true]} : vector<2x12xf32>, memref<2x12xf32>
    return
  }

  // What else a loop or a branch passes on stays in its place.

  // CHECK-LABEL: func.func @among_others
  // CHECK-SAME: %[[N:[a-z0-9_]+]]: index, %[[X:[a-z0-9_]+]]: vector<2x4xf64>, %[[V:[a-z0-9_]+]]: vector<7xf64>
  // CHECK: %[[LOOP:[a-z0-9_]+]]:4 = scf.for {{.*}} -> (index, vector<1x4xf64>, vector<1x4xf64>, vector<7xf64>)
  // CHECK: scf.if {{.*}} -> (index, vector<1x4xf64>, vector<1x4xf64>)
  // CHECK: return %[[LOOP]]#0, %{{[a-z0-9_]+}}, %[[LOOP]]#3 : index, vector<2x4xf64>, vector<7xf64>
  func.func @among_others(%n: index, %x: vector<2x4xf64>, %v: vector<7xf64>, %f: i1) -> (index, vector<2x4xf64>, vector<7xf64>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r:3 = scf.for %k = %c0 to %n step %c1 iter_args(%i = %c0, %y = %x, %w = %v) -> (index, vector<2x4xf64>, vector<7xf64>) {
      %t:2 = scf.if %f -> (index, vector<2x4xf64>) {
        %j = arith.addi %i, %k : index
        scf.yield %j, %y : index, vector<2x4xf64>
      } else {
        scf.yield %i, %x : index, vector<2x4xf64>
      }
      %u = arith.addf %w, %w : vector<7xf64>
      scf.yield %t#0, %t#1, %u : index, vector<2x4xf64>, vector<7xf64>
    }
    return %r#0, %r#1, %r#2 : index, vector<2x4xf64>, vector<7xf64>
  }

  // A row that is no multiple of the lanes stays whole; a transfer that may be out of bounds stays so in each piece.

  // CHECK-LABEL: func.func @odd
  // CHECK-COUNT-3: vector.transfer_read %{{.*}} {in_bounds = [false, true]} : memref<?x6xf32>, vector<1x6xf32>
  // CHECK-COUNT-3: vector.transfer_write %{{.*}} {in_bounds = [false, true]} : vector<1x6xf32>, memref<?x6xf32>
  // CHECK-NOT: vector.transfer
  // CHECK: return
  func.func @odd(%a: memref<?x6xf32>, %c: memref<?x6xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %v = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [false, true]} : memref<?x6xf32>, vector<3x6xf32>
    vector.transfer_write %v, %c[%c0, %c0] {in_bounds = [false, true]} : vector<3x6xf32>, memref<?x6xf32>
    return
  }

  // Three dimensions.

  // CHECK-LABEL: func.func @three
  // CHECK-COUNT-8: vector.transfer_read %{{.*}} : memref<2x2x8xi8>, vector<1x1x4xi8>
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @three(%a: memref<2x2x8xi8>) -> vector<2x2x8xi8> {
    %z = arith.constant 0 : i8
    %c0 = arith.constant 0 : index
    %v = vector.transfer_read %a[%c0, %c0, %c0], %z {in_bounds = [true, true, true]} : memref<2x2x8xi8>, vector<2x2x8xi8>
    return %v : vector<2x2x8xi8>
  }

  // One register, one dimension, and vectors whose length is not known: nothing changes.

  // CHECK-LABEL: func.func @left_alone
  // CHECK: vector.transfer_read {{.*}} vector<1x4xf32>
  // CHECK: vector.transfer_read {{.*}} vector<8xf32>
  // CHECK: vector.transfer_read {{.*}} vector<2x[8]xf32>
  // CHECK: scf.for {{.*}} -> (vector<2x[8]xf32>)
  func.func @left_alone(%a: memref<2x8xf32>, %n: index) -> (vector<1x4xf32>, vector<8xf32>, vector<2x[8]xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %u = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [true, true]} : memref<2x8xf32>, vector<1x4xf32>
    %v = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [true]} : memref<2x8xf32>, vector<8xf32>
    %w = vector.transfer_read %a[%c0, %c0], %z : memref<2x8xf32>, vector<2x[8]xf32>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %w) -> vector<2x[8]xf32> {
      %y = arith.addf %x, %x : vector<2x[8]xf32>
      scf.yield %y : vector<2x[8]xf32>
    }
    return %u, %v, %r : vector<1x4xf32>, vector<8xf32>, vector<2x[8]xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.unroll_vectors %functions lanes 4 : !transform.any_op
    // The handle is still good, and a second time changes nothing.
    transform.tilewright.unroll_vectors %functions lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

// The accumulator of a matrix-vector product has one dimension, that of a dot product none: the first is cut to
// registers all the same, the second cannot be.

module attributes {transform.with_named_sequence} {
  // CHECK-LABEL: func.func @fewer_dimensions
  // CHECK-COUNT-2: vector.contract {{.*}} into vector<4xf32>
  // CHECK: vector.contract {{.*}} : vector<8xf32>, vector<8xf32> into f32
  // CHECK-NOT: vector.contract
  // CHECK: return
  func.func @fewer_dimensions(%a: vector<8x1xf32>, %x: vector<1xf32>, %y: vector<8xf32>, %s: f32) -> (vector<8xf32>, f32) {
    %u = vector.contract {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>} %a, %x, %y : vector<8x1xf32>, vector<1xf32> into vector<8xf32>
    %v = vector.contract {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>], iterator_types = ["reduction"], kind = #vector.kind<add>} %y, %y, %s : vector<8xf32>, vector<8xf32> into f32
    return %u, %v : vector<8xf32>, f32
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.unroll_vectors %functions lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

// A row of whole parts of a register, and more than one register, becomes such parts; one of a register is one piece.

module attributes {transform.with_named_sequence} {
  // CHECK-LABEL: func.func @parts
  // CHECK-COUNT-6: vector.transfer_read {{.*}} vector<1x4xf32>
  // CHECK-COUNT-3: vector.transfer_read {{.*}} vector<1x8xf32>
  // CHECK: vector.transfer_read {{.*}} vector<1x14xf32>
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @parts(%a: memref<2x12xf32>, %b: memref<3x8xf32>, %c: memref<1x14xf32>) -> (vector<2x12xf32>, vector<3x8xf32>, vector<1x14xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %x = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [true, true]} : memref<2x12xf32>, vector<2x12xf32>
    %y = vector.transfer_read %b[%c0, %c0], %z {in_bounds = [true, true]} : memref<3x8xf32>, vector<3x8xf32>
    %w = vector.transfer_read %c[%c0, %c0], %z {in_bounds = [true, true]} : memref<1x14xf32>, vector<1x14xf32>
    return %x, %y, %w : vector<2x12xf32>, vector<3x8xf32>, vector<1x14xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.unroll_vectors %functions lanes 8 part 4 : !transform.any_op
    transform.yield
  }
}
