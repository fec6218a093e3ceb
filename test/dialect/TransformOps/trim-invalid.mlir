// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  func.func @not_padded(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{operand number 0 is not padded: pad it first, with nofold, as packing does}}
    %1 = transform.tilewright.trim %0 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @no_reduction(%a: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.copy ins(%a : tensor<4xf32>) outs(%c : tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.copy"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a linalg op with one reduction}}
    %1 = transform.tilewright.trim %0 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
