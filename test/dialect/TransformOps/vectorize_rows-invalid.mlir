// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
module attributes {transform.with_named_sequence} {
  func.func @product(%x: tensor<8x64xf32>, %c: tensor<8xf32>) -> tensor<8xf32> {
    %one = arith.constant 1.0 : f32
    %start = linalg.fill ins(%one : f32) outs(%c : tensor<8xf32>) -> tensor<8xf32>
    // expected-note @+1 {{payload operation}}
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x64xf32>) outs(%start : tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %b, %a : f32
      linalg.yield %0 : f32
    } -> tensor<8xf32>
    return %s : tensor<8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %r = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{a reduction is none along n by a sum or a maximum}}
    transform.tilewright.vectorize_rows %r lanes 16 : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
module attributes {transform.with_named_sequence} {
  func.func @adds_to_what_is_there(%x: tensor<8x64xf32>, %c: tensor<8xf32>) -> tensor<8xf32> {
    // expected-note @+1 {{payload operation}}
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x64xf32>) outs(%c : tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %b, %a : f32
      linalg.yield %0 : f32
    } -> tensor<8xf32>
    return %s : tensor<8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %r = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{a reduction's output is not filled with a constant}}
    transform.tilewright.vectorize_rows %r lanes 16 : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
module attributes {transform.with_named_sequence} {
  func.func @used_by_others(%x: tensor<8x64xf32>, %c: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
    %p = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%x : tensor<8x64xf32>) {
    ^bb0(%a: f32):
      %0 = math.exp %a : f32
      linalg.yield %0 : f32
    } -> tensor<8x64xf32>
    // expected-note @+1 {{payload operation}}
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<8x64xf32>) outs(%c : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = math.exp %a : f32
      linalg.yield %0 : f32
    } -> tensor<8x64xf32>
    return %r, %p : tensor<8x64xf32>, tensor<8x64xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.return"]} in %root : (!transform.any_op) -> !transform.any_op
    %r = transform.get_producer_of_operand %f[0] : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{an op is used by others}}
    transform.tilewright.vectorize_rows %r lanes 16 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // expected-note @+1 {{payload operation}}
  func.func @nothing() {
    return
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{it is no linalg.generic}}
    transform.tilewright.vectorize_rows %f lanes 16 : !transform.any_op
    transform.yield
  }
}
