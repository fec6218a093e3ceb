// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  func.func @no_prologue(%a: tensor<4x32xf32>, %b: tensor<32x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.matmul ins(%a, %b : tensor<4x32xf32>, tensor<32x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a B that an elementwise linalg.generic computes}}
    transform.tilewright.reorder_along_k %0 block 32 ways 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @short_block(%a: tensor<4x40xf32>, %b: tensor<40x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.matmul ins(%a, %b : tensor<4x40xf32>, tensor<40x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a size along k that is known, and a multiple of the block}}
    transform.tilewright.reorder_along_k %0 block 32 ways 4 : !transform.any_op
    transform.yield
  }
}
