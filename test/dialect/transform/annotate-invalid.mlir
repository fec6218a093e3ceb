// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{expected an attribute of the dialect that the payload carries, got "packed"}}
    transform.tilewright.annotate "packed" on %root : !transform.any_op
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
    // expected-error @+1 {{'arith.constant' cannot carry 'tilewright.target': only a module or a function is compiled for a target; match one}}
    transform.tilewright.annotate #tilewright.target<name = "t", triple = "x86_64"> on %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @f() {
    // expected-note @+1 {{payload operation}}
    %0 = arith.constant {tilewright.schedule = #tilewright.schedule<strategy = "one">} 0 : index
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["arith.constant"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'arith.constant' already carries #tilewright.schedule<strategy = "one"> and cannot carry #tilewright.schedule<strategy = "two"> too: annotate each payload operation once}}
    transform.tilewright.annotate #tilewright.schedule<strategy = "two"> on %0 : !transform.any_op
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
    // expected-error @+1 {{'arith.constant' cannot carry 'tilewright.product': only a linalg op is a product; match one}}
    transform.tilewright.annotate #tilewright.outer_products<mc = 8, nc = 8, kc = 8> on %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A schedule's module says for which calls it is; the payload does not.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{expected an attribute of the dialect that the payload carries, got #tilewright.kernel<threads = 2>}}
    transform.tilewright.annotate #tilewright.kernel<threads = 2> on %root : !transform.any_op
    transform.yield
  }
}
