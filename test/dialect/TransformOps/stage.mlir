// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -split-input-file -verify-diagnostics | FileCheck %s

// C's tile starts filled in a longer row, and is copied last. A gets a copy too.
// CHECK-LABEL: func @zeroed
//  CHECK-SAME:   (%[[A:[a-z0-9]+]]: tensor<8x64xf32>, %[[B:[a-z0-9]+]]: tensor<64x32xf32>, %[[C:[a-z0-9]+]]: tensor<8x32xf32>)
//   CHECK-NOT:   outs(%[[C]]
//   CHECK-DAG:   %[[ROWS:.*]] = bufferization.alloc_tensor() : tensor<8x112xf32>
//   CHECK-DAG:   %[[SLICE:.*]] = tensor.extract_slice %[[ROWS]][0, 0] [8, 64] [1, 1]
//   CHECK-DAG:   %[[STAGED:.*]] = linalg.copy ins(%[[A]] {{.*}} outs(%[[SLICE]]
//   CHECK-DAG:   %[[SUMS:.*]] = bufferization.alloc_tensor() : tensor<8x80xf32>
//   CHECK-DAG:   %[[STRIP:.*]] = tensor.extract_slice %[[SUMS]][0, 0] [8, 32] [1, 1]
//   CHECK-DAG:   %[[START:.*]] = linalg.fill {{.*}} outs(%[[STRIP]]
//       CHECK:   %[[PRODUCT:.*]] = linalg.matmul ins(%[[STAGED]], %[[B]] {{.*}} outs(%[[START]]
//       CHECK:   %[[RESULT:.*]] = linalg.copy ins(%[[PRODUCT]] {{.*}} outs(%[[C]]
//       CHECK:   return %[[RESULT]]
func.func @zeroed(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %c: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}

// Without a fill, the sums start as a copy.
// CHECK-LABEL: func @added
//  CHECK-SAME:   %[[C:[a-z0-9]+]]: tensor<8x32xf32>)
//       CHECK:   %[[START:.*]] = linalg.copy ins(%[[C]]
//       CHECK:   linalg.matmul {{.*}} outs(%[[START]]
//       CHECK:   linalg.copy {{.*}} outs(%[[C]]
func.func @added(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %c: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x32xf32>) outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}

// Sums that are nobody's but the next op's are not brought back.
// CHECK-LABEL: func @own
//       CHECK:   %[[PRODUCT:.*]] = linalg.matmul
//   CHECK-NOT:   linalg.copy
//       CHECK:   linalg.exp ins(%[[PRODUCT]]
func.func @own(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %c: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %x = linalg.exp ins(%r : tensor<8x32xf32>) outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %x : tensor<8x32xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %product = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.stage %product operand 0 gap 48 : !transform.any_op
    transform.tilewright.stage %product operand 2 gap 48 : !transform.any_op
    transform.yield
  }
}

// -----

func.func @none(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %c: tensor<8x32xf32>) -> tensor<8x32xf32> {
  // expected-note @below {{payload operation}}
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x32xf32>) outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %product = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @below {{expected a linalg op whose operand number 3 is a two-dimensional tensor of a size that is known or bounded}}
    transform.tilewright.stage %product operand 3 gap 48 : !transform.any_op
    transform.yield
  }
}

// -----

// B's columns become rows of a tensor of its own, in which the product reads along k.
// CHECK: #[[TURNED:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func @turned
//  CHECK-SAME:   %[[B:[a-z0-9]+]]: tensor<64x3xf32>
//       CHECK:   %[[ROWS:.*]] = bufferization.alloc_tensor() : tensor<3x112xf32>
//       CHECK:   %[[SLICE:.*]] = tensor.extract_slice %[[ROWS]][0, 0] [3, 64] [1, 1]
//       CHECK:   %[[STAGED:.*]] = linalg.transpose ins(%[[B]] {{.*}} outs(%[[SLICE]] {{.*}} permutation = [1, 0]
//       CHECK:   linalg.matmul indexing_maps = [#{{.*}}, #[[TURNED]], #{{.*}}] ins(%{{.*}}, %[[STAGED]] :
func.func @turned(%a: tensor<8x64xf32>, %b: tensor<64x3xf32>, %c: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x3xf32>) outs(%c : tensor<8x3xf32>) -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %product = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.stage transposed %product operand 1 gap 48 : !transform.any_op
    transform.yield
  }
}

// -----

func.func @sums(%a: tensor<8x64xf32>, %b: tensor<64x3xf32>, %c: tensor<8x3xf32>) -> tensor<8x3xf32> {
  // expected-note @below {{payload operation}}
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x3xf32>) outs(%c : tensor<8x3xf32>) -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %product = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @below {{expected an input of a linalg.matmul, contract or generic to transpose}}
    transform.tilewright.stage transposed %product operand 2 gap 48 : !transform.any_op
    transform.yield
  }
}
