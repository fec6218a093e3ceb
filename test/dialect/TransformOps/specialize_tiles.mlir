// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter -canonicalize --split-input-file | FileCheck %s

// Rows: tiles as even as can be, and code for 1, 2 and 3 of them.
// CHECK-LABEL: func @rows
module attributes {transform.with_named_sequence} {
  func.func @rows(%c: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %m = tensor.dim %c, %c0 : tensor<?x4xf32>
    // CHECK: %[[TILES:.*]] = arith.ceildivui %[[M:.*]], %c3
    // CHECK: %[[EVEN:.*]] = arith.ceildivui %[[M]], %[[TILES]]
    // CHECK: scf.for {{.*}} step %[[EVEN]]
    // CHECK: %[[SIZE:.*]] = affine.min
    // CHECK: scf.index_switch %[[SIZE]]
    // CHECK: case 1
    // CHECK: tensor<1x4xf32>
    // CHECK: case 2
    // CHECK: tensor<2x4xf32>
    // CHECK: default
    // CHECK: tensor<3x4xf32>
    %r = scf.for %i = %c0 to %m step %c3 iter_args(%t = %c) -> tensor<?x4xf32> {
      %size = affine.min affine_map<(d0)[s0] -> (s0 - d0, 3)>(%i)[%m]
      %s = tensor.extract_slice %t[%i, 0] [%size, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
      %e = linalg.exp ins(%s : tensor<?x4xf32>) outs(%s : tensor<?x4xf32>) -> tensor<?x4xf32>
      %u = tensor.insert_slice %e into %t[%i, 0] [%size, 4] [1, 1] : tensor<?x4xf32> into tensor<?x4xf32>
      scf.yield %u : tensor<?x4xf32>
    }
    return %r : tensor<?x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.specialize_tiles %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Columns, by vectors of 8: each number of vectors whole, or with an end of which only a bound is known.
// CHECK-LABEL: func @columns
module attributes {transform.with_named_sequence} {
  func.func @columns(%c: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %n = tensor.dim %c, %c0 : tensor<?xf32>
    // CHECK: case 1
    // CHECK: tensor<8xf32>
    // CHECK: else
    // CHECK: affine.min
    // CHECK: default
    // CHECK: tensor<16xf32>
    // CHECK: else
    // CHECK: affine.min
    %r = scf.for %i = %c0 to %n step %c16 iter_args(%t = %c) -> tensor<?xf32> {
      %size = affine.min affine_map<(d0)[s0] -> (s0 - d0, 16)>(%i)[%n]
      %s = tensor.extract_slice %t[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
      %e = linalg.exp ins(%s : tensor<?xf32>) outs(%s : tensor<?xf32>) -> tensor<?xf32>
      %u = tensor.insert_slice %e into %t[%i] [%size] [1] : tensor<?xf32> into tensor<?xf32>
      scf.yield %u : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.specialize_tiles %0 unit 8 : !transform.any_op
    transform.yield
  }
}

// -----

// The same where masks are cheap: only the larger number of vectors has code for whole ones.
// CHECK-LABEL: func @masked
module attributes {transform.with_named_sequence} {
  func.func @masked(%c: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %n = tensor.dim %c, %c0 : tensor<?xf32>
    // CHECK: case 1
    // CHECK-NOT: scf.if
    // CHECK: affine.min
    // CHECK-NOT: tensor<8xf32>
    // CHECK: default
    // CHECK: tensor<16xf32>
    // CHECK: else
    // CHECK: affine.min
    %r = scf.for %i = %c0 to %n step %c16 iter_args(%t = %c) -> tensor<?xf32> {
      %size = affine.min affine_map<(d0)[s0] -> (s0 - d0, 16)>(%i)[%n]
      %s = tensor.extract_slice %t[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
      %e = linalg.exp ins(%s : tensor<?xf32>) outs(%s : tensor<?xf32>) -> tensor<?xf32>
      %u = tensor.insert_slice %e into %t[%i] [%size] [1] : tensor<?xf32> into tensor<?xf32>
      scf.yield %u : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.specialize_tiles %0 unit 8 masked : !transform.any_op
    transform.yield
  }
}

// -----

// An extent that is no larger than the step: no loop, and under masks no code for a whole vector.
// CHECK-LABEL: func @once
module attributes {transform.with_named_sequence} {
  func.func @once(%c: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    // CHECK: %[[N:.*]] = tensor.dim
    %n = tensor.dim %c, %c0 : tensor<?xf32>
    // CHECK-NOT: scf.for
    // CHECK-NOT: ceildivui
    // CHECK: %[[UNITS:.*]] = affine.apply {{.*}}[%[[N]]]
    // CHECK: scf.index_switch %[[UNITS]]
    // CHECK: case 1
    // CHECK: affine.min
    // CHECK: default
    // CHECK-NOT: scf.if
    // CHECK: affine.min
    // CHECK-NOT: tensor<16xf32>
    // CHECK: return
    %r = scf.for %i = %c0 to %n step %c16 iter_args(%t = %c) -> tensor<?xf32> {
      %size = affine.min affine_map<(d0)[s0] -> (s0 - d0, 16)>(%i)[%n]
      %s = tensor.extract_slice %t[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
      %e = linalg.exp ins(%s : tensor<?xf32>) outs(%s : tensor<?xf32>) -> tensor<?xf32>
      %u = tensor.insert_slice %e into %t[%i] [%size] [1] : tensor<?xf32> into tensor<?xf32>
      scf.yield %u : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.specialize_tiles %0 unit 8 masked once : !transform.any_op
    transform.yield
  }
}

// -----

// Nothing is masked: whole vectors of a slice of their own, of which there may be none, and what is left one by one.
// CHECK-LABEL: func @single
module attributes {transform.with_named_sequence} {
  func.func @single(%c: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %n = tensor.dim %c, %c0 : tensor<?xf32>
    // CHECK: %[[END:.*]] = affine.apply
    // CHECK: %[[BEFORE:.*]] = tensor.extract_slice %{{.*}}[0] [%[[END]]] [1]
    // CHECK: arith.maxui
    // CHECK: arith.maxui
    // CHECK: %[[WHOLE:.*]] = scf.for {{.*}} to %[[END]] step {{.*}} iter_args(%{{.*}} = %[[BEFORE]])
    // CHECK: case 1
    // CHECK: tensor<8xf32>
    // CHECK: default
    // CHECK: tensor<16xf32>
    // CHECK: %[[INTO:.*]] = tensor.insert_slice %[[WHOLE]]
    // CHECK: scf.for {{.*}} = %[[END]] to {{.*}} step %c1 iter_args(%{{.*}} = %[[INTO]])
    // CHECK: tensor<1xf32>
    // CHECK-NOT: affine.min
    // CHECK: return
    %r = scf.for %i = %c0 to %n step %c16 iter_args(%t = %c) -> tensor<?xf32> {
      %size = affine.min affine_map<(d0)[s0] -> (s0 - d0, 16)>(%i)[%n]
      %s = tensor.extract_slice %t[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
      %e = linalg.exp ins(%s : tensor<?xf32>) outs(%s : tensor<?xf32>) -> tensor<?xf32>
      %u = tensor.insert_slice %e into %t[%i] [%size] [1] : tensor<?xf32> into tensor<?xf32>
      scf.yield %u : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.specialize_tiles %0 unit 8 single : !transform.any_op
    transform.yield
  }
}
