// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{attribute 'lanes' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
    transform.tilewright.unroll_vectors %0 lanes -4 : !transform.any_op
    transform.yield
  }
}

// -----

// A loop that carried a split vector is another one now: a handle to it is empty, so nothing is remarked on.
module attributes {transform.with_named_sequence} {
  func.func @f(%n: index, %x: vector<2x4xf32>) -> vector<2x4xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%y = %x) -> vector<2x4xf32> {
      %z = arith.addf %y, %x : vector<2x4xf32>
      scf.yield %z : vector<2x4xf32>
    }
    return %r : vector<2x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.unroll_vectors %0 lanes 4 : !transform.any_op
    transform.debug.emit_remark_at %1, "after" : !transform.any_op
    transform.yield
  }
}
