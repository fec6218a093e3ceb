// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{attribute 'lanes' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
    transform.tilewright.vectorize_pad %0 lanes 0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // expected-note @+1 {{payload operation}}
  func.func @not_a_pad() {
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result, no low or negative padding and a constant padding value: pad with transform.structured.pad first}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @one_dimension(%a: tensor<?xf32>, %h: index) -> tensor<8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0] high[%h] {
    ^bb0(%i: index):
      tensor.yield %z : f32
    } : tensor<?xf32> to tensor<8xf32>
    return %p : tensor<8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @dynamic_result(%a: tensor<?x?xf32>, %h: index) -> tensor<?x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, 0] high[%h, %h] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<?x?xf32> to tensor<?x8xf32>
    return %p : tensor<?x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @low_padding(%a: tensor<3x7xf32>, %h: index) -> tensor<3x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, 1] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<3x7xf32> to tensor<3x8xf32>
    return %p : tensor<3x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @unknown_low_padding(%a: tensor<3x?xf32>, %h: index) -> tensor<3x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, %h] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<3x?xf32> to tensor<3x8xf32>
    return %p : tensor<3x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @cropping(%a: tensor<9x8xf32>, %h: index) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, 0] high[-1, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<9x8xf32> to tensor<8x8xf32>
    return %p : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @no_vector_holds_it(%a: tensor<3x?xcomplex<f32>>, %h: index, %v: complex<f32>) -> tensor<3x8xcomplex<f32>> {
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, 0] high[0, %h] {
    ^bb0(%i: index, %j: index):
      tensor.yield %v : complex<f32>
    } : tensor<3x?xcomplex<f32>> to tensor<3x8xcomplex<f32>>
    return %p : tensor<3x8xcomplex<f32>>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

// The padding value depends on where it goes.
module attributes {transform.with_named_sequence} {
  func.func @no_constant(%a: tensor<3x?xindex>, %h: index) -> tensor<3x8xindex> {
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a low[0, 0] high[0, %h] {
    ^bb0(%i: index, %j: index):
      tensor.yield %i : index
    } : tensor<3x?xindex> to tensor<3x8xindex>
    return %p : tensor<3x8xindex>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a two-dimensional tensor.pad of numbers with a static result}}
    transform.tilewright.vectorize_pad %0 lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @three_rows(%a: tensor<?x8xf32>, %h: index) -> tensor<3x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a nofold low[0, 0] high[%h, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<?x8xf32> to tensor<3x8xf32>
    return %p : tensor<3x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the result has 3 rows, no multiple of 2}}
    transform.tilewright.vectorize_pad %pads lanes 8 rows 2 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @computed_by_nobody(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %a nofold low[0, 0] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<4x8xf32> to tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a source that an elementwise linalg.generic computes: it is no linalg.generic}}
    transform.tilewright.vectorize_pad %0 lanes 4 computed : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
#turned = affine_map<(m, n) -> (n, m)>
module attributes {transform.with_named_sequence} {
  func.func @another_element(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%x: f32, %former: f32):
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to i32
      %0 = arith.sitofp %j : i32 to f32
      %1 = arith.addf %x, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %p = tensor.pad %f nofold low[0, 0] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<8x8xf32> to tensor<8x8xf32>
    return %p : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{it computes more than one number from numbers}}
    transform.tilewright.vectorize_pad %0 lanes 4 computed : !transform.any_op
    transform.yield
  }
}
