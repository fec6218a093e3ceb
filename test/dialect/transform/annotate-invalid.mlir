// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{expected a #tilewright.target or a #tilewright.schedule, got "packed"}}
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
    // expected-error @+1 {{a target belongs on a module or a function, not on 'arith.constant': match one of those}}
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
