// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  func.func @no_tiles(%n: index, %c: memref<?xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    // expected-note @+1 {{payload operation}}
    scf.for %i = %c0 to %n step %c4 {
      memref.store %z, %c[%i] : memref<?xf32>
    }
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a loop over tiles whose size is an affine.min of its step: tile with tile_using_for first}}
    transform.tilewright.specialize_tiles %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @no_multiple(%n: index, %c: memref<?xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    // expected-note @+1 {{payload operation}}
    scf.for %i = %c0 to %n step %c4 {
      memref.store %z, %c[%i] : memref<?xf32>
    }
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected an scf.for whose step is a constant and a multiple of 3}}
    transform.tilewright.specialize_tiles %0 unit 3 : !transform.any_op
    transform.yield
  }
}
