// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{unknown attribute `offline_softmax` in dialect `tilewright`}}
    transform.tilewright.decide offline_softmax(kc = 8) on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kc = transform.param.constant 8 : i64 -> !transform.param<i64>
    // expected-error @+1 {{#tilewright.scaled_sums<kc = 1, nc = 8, nr = 8>: expected ','}}
    transform.tilewright.decide scaled_sums(kc = %kc, nr = 8, nc = 8) on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kc = transform.param.constant 8 : i64 -> !transform.param<i64>
    // expected-error @+1 {{kc: said twice}}
    transform.tilewright.decide online_softmax(kc = %kc, kc = 8) on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{kc: said twice}}
    transform.tilewright.decide online_softmax(kc = 4, kc = 8) on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{vectorize: expected "queries" or "head", got "keys"}}
    transform.tilewright.decide online_softmax(kc = 8, vectorize = "keys") on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{expected the name of an attribute that the payload carries, got kernel}}
    transform.tilewright.decide kernel(threads = 2) on %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{expected a name for each parameter, got 1 for 0}}
    "transform.tilewright.decide"(%root) {kind = "online_softmax", names = ["kc"], others = {}} : (!transform.any_op) -> ()
    transform.yield
  }
}

// -----

// Sizes of the attribute go together or not once they are known.
module attributes {transform.with_named_sequence} {
  func.func @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = linalg.softmax dimension(1) ins(%a : tensor<8x8xf32>) outs(%a : tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.softmax"]} in %root : (!transform.any_op) -> !transform.any_op
    %mr = transform.param.constant 4 : i64 -> !transform.param<i64>
    // expected-error @+1 {{#tilewright.online_softmax<mr = 4, kc = 16, vectorize = "head">: mr, nr, columns: expected 1 with vectorize = "head", got 4, 1, 1}}
    transform.tilewright.decide online_softmax(kc = 16, mr = %mr, vectorize = "head") on %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @f() {
    // expected-note @+1 {{payload operation}}
    %0 = arith.constant 0 : index
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["arith.constant"]} in %root : (!transform.any_op) -> !transform.any_op
    %kc = transform.param.constant 8 : i64 -> !transform.param<i64>
    // expected-error @+1 {{'arith.constant' cannot carry 'tilewright.softmax': only a linalg.softmax is computed online; match one}}
    transform.tilewright.decide online_softmax(kc = %kc) on %0 : !transform.any_op
    transform.yield
  }
}
