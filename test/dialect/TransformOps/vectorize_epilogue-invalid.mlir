// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

#id = affine_map<(m, n) -> (m, n)>
module attributes {transform.with_named_sequence} {
  func.func @not_a_tile(%x: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    } -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{whose first input is a tile of static shape}}
    %w = transform.tilewright.vectorize_epilogue %g : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
module attributes {transform.with_named_sequence} {
  func.func @not_elementwise(%x: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-note @+1 {{payload operation}}
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to i32
      %f = arith.sitofp %j : i32 to f32
      linalg.yield %f : f32
    } -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected an elementwise linalg.generic}}
    %w = transform.tilewright.vectorize_epilogue %g : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
module attributes {transform.with_named_sequence} {
  func.func @a_shape_of_columns_alone(%x: tensor<1x?xf32>, %c: tensor<1x?xf32>) -> tensor<1x?xf32> {
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<1x?xf32>) outs(%c : tensor<1x?xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    } -> tensor<1x?xf32>
    return %r : tensor<1x?xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a shape of rows and columns, each above zero}}
    %w = transform.tilewright.vectorize_epilogue %g shape [16] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
