// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // The full tile takes a branch in which nothing is out of bounds, the other stays as it was.

  // CHECK: #[[ROOM:.*]] = affine_map<()[s0, s1] -> (s0 - s1)>
  // CHECK-LABEL: func.func @read
  // CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<?x?xf32>, %[[I:[a-z0-9]+]]: index
  // CHECK-DAG: %[[ROWS:[a-z0-9_]+]] = tensor.dim %[[A]], %c0
  // CHECK-DAG: %[[LEFT:[a-z0-9_]+]] = affine.apply #[[ROOM]]()[%[[ROWS]], %[[I]]]
  // CHECK-DAG: %[[ENOUGH_ROWS:[a-z0-9_]+]] = arith.cmpi sge, %[[LEFT]], %c4
  // CHECK-DAG: %[[COLUMNS:[a-z0-9_]+]] = tensor.dim %[[A]], %c1
  // CHECK-DAG: %[[ENOUGH_COLUMNS:[a-z0-9_]+]] = arith.cmpi sge, %[[COLUMNS]], %c8
  // CHECK: %[[FULL:[a-z0-9_]+]] = arith.andi %[[ENOUGH_ROWS]], %[[ENOUGH_COLUMNS]]
  // CHECK: %[[V:[a-z0-9_]+]] = scf.if %[[FULL]] -> (vector<4x8xf32>)
  // CHECK: vector.transfer_read %[[A]]{{.*}}in_bounds = [true, true]
  // CHECK: else
  // CHECK-NOT: in_bounds
  // CHECK: vector.transfer_read %[[A]]
  // CHECK-NOT: in_bounds
  // CHECK: return %[[V]]
  func.func @read(%a: tensor<?x?xf32>, %i: index) -> vector<4x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %v = vector.transfer_read %a[%i, %c0], %z : tensor<?x?xf32>, vector<4x8xf32>
    return %v : vector<4x8xf32>
  }

  // Only the dimensions that may leave their bounds are compared; writes to tensors yield, writes to memory do not.

  // CHECK-LABEL: func.func @write
  // CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<4x?xf64>, %[[M:[a-z0-9]+]]: memref<4x?xf64>
  // CHECK: arith.cmpi sge
  // CHECK-NOT: arith.cmpi
  // CHECK: scf.if %{{.*}} -> (tensor<4x?xf64>)
  // CHECK: vector.transfer_write %{{.*}}, %[[T]]{{.*}}in_bounds = [true, true]
  // CHECK: vector.transfer_write %{{.*}}, %[[T]]{{.*}}in_bounds = [true, false]
  // CHECK: arith.cmpi sge
  // CHECK-NOT: arith.cmpi
  // CHECK: scf.if %{{[^>]*}} {
  // CHECK: vector.transfer_write %{{.*}}, %[[M]]{{.*}}in_bounds = [true, true]
  // CHECK: vector.transfer_write %{{.*}}, %[[M]]{{.*}}in_bounds = [true, false]
  func.func @write(%t: tensor<4x?xf64>, %m: memref<4x?xf64>, %v: vector<4x8xf64>) -> tensor<4x?xf64> {
    %c0 = arith.constant 0 : index
    %r = vector.transfer_write %v, %t[%c0, %c0] {in_bounds = [true, false]} : vector<4x8xf64>, tensor<4x?xf64>
    vector.transfer_write %v, %m[%c0, %c0] {in_bounds = [true, false]} : vector<4x8xf64>, memref<4x?xf64>
    return %r : tensor<4x?xf64>
  }

  // A transposed read compares each dimension with the one that it comes from; a broadcast one needs no room.

  // CHECK-LABEL: func.func @mapped
  // CHECK-SAME: %[[A:[a-z0-9]+]]: memref<?x?xf64>
  // CHECK-DAG: %[[ROWS:[a-z0-9_]+]] = memref.dim %[[A]], %c0
  // CHECK-DAG: %[[COLUMNS:[a-z0-9_]+]] = memref.dim %[[A]], %c1
  // CHECK-DAG: arith.cmpi sge, %[[COLUMNS]], %c4
  // CHECK-DAG: arith.cmpi sge, %[[ROWS]], %c8
  // CHECK: scf.if
  // CHECK: arith.cmpi sge, %[[COLUMNS]], %c8
  // CHECK-NOT: arith.cmpi
  // CHECK: scf.if
  func.func @mapped(%a: memref<?x?xf64>) -> (vector<4x8xf64>, vector<4x8xf64>) {
    %z = arith.constant 0.0 : f64
    %c0 = arith.constant 0 : index
    %v = vector.transfer_read %a[%c0, %c0], %z {permutation_map = affine_map<(d0, d1) -> (d1, d0)>} : memref<?x?xf64>, vector<4x8xf64>
    %w = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [true, false], permutation_map = affine_map<(d0, d1) -> (0, d1)>} : memref<?x?xf64>, vector<4x8xf64>
    return %v, %w : vector<4x8xf64>, vector<4x8xf64>
  }

  // A mask stays; a scalable dimension is as long as the hardware says.

  // CHECK-LABEL: func.func @scalable
  // CHECK-SAME: %[[MASK:[a-z0-9]+]]: vector<[4]xi1>
  // CHECK: %[[SCALE:[a-z0-9_]+]] = vector.vscale
  // CHECK: %[[LENGTH:[a-z0-9_]+]] = arith.muli %[[SCALE]], %c4
  // CHECK: arith.cmpi sge, %{{.*}}, %[[LENGTH]]
  // CHECK: vector.transfer_read %{{.*}}, %[[MASK]] {in_bounds = [true]}
  // CHECK: vector.transfer_read %{{.*}}, %[[MASK]] :
  func.func @scalable(%a: memref<?xf32>, %m: vector<[4]xi1>, %i: index) -> vector<[4]xf32> {
    %z = arith.constant 0.0 : f32
    %v = vector.transfer_read %a[%i], %z, %m : memref<?xf32>, vector<[4]xf32>
    return %v : vector<[4]xf32>
  }

  // Known to be full, known never to be, or without any dimension: no branch is left.

  // CHECK-LABEL: func.func @known
  // CHECK-NOT: scf.if
  // CHECK-DAG: vector.transfer_read {{.*}}in_bounds = [true, true]{{.*}}memref<4x8xf32>
  // CHECK-DAG: vector.transfer_read {{.*}} memref<3x0xf32>
  // CHECK-DAG: vector.transfer_read {{.*}} memref<f32>
  // CHECK: return
  func.func @known(%a: memref<4x8xf32>, %b: memref<3x0xf32>, %c: memref<f32>) -> (vector<4x8xf32>, vector<4x8xf32>, vector<f32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %v = vector.transfer_read %a[%c0, %c0], %z {in_bounds = [true, true]} : memref<4x8xf32>, vector<4x8xf32>
    %w = vector.transfer_read %b[%c0, %c0], %z : memref<3x0xf32>, vector<4x8xf32>
    %x = vector.transfer_read %c[], %z : memref<f32>, vector<f32>
    return %v, %w, %x : vector<4x8xf32>, vector<4x8xf32>, vector<f32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["vector.transfer_read", "vector.transfer_write"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.split_transfer %0 : !transform.any_op
    transform.yield
  }
}
