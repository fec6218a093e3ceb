// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -verify-diagnostics

func.func @none(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{payload operation}}
  %r = tensor.cast %x : tensor<4xf32> to tensor<4xf32>
  return %r : tensor<4xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %ops = transform.structured.match ops{["tensor.cast"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @below {{expected a linalg op on tensors}}
    transform.tilewright.drop_batch %ops count 1 : !transform.any_op
    transform.yield
  }
}
