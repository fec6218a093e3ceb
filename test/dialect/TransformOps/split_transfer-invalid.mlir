// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  func.func @no_transfer(%a: memref<4xf32>) {
    %c0 = arith.constant 0 : index
    // expected-note @+1 {{payload operation}}
    %v = vector.load %a[%c0] : memref<4xf32>, vector<4xf32>
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["vector.load"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a vector.transfer_read or a vector.transfer_write, got 'vector.load'}}
    transform.tilewright.split_transfer %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @inside_a_mask(%a: memref<?xf32>, %m: vector<4xi1>) -> vector<4xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    // expected-note @+1 {{payload operation}}
    %v = vector.mask %m { vector.transfer_read %a[%c0], %z : memref<?xf32>, vector<4xf32> } : vector<4xi1> -> vector<4xf32>
    return %v : vector<4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["vector.transfer_read"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the transfer is inside a vector.mask, which holds one operation: lower the mask first}}
    transform.tilewright.split_transfer %0 : !transform.any_op
    transform.yield
  }
}
