// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics | FileCheck %s

// Each tile has two columns half of all apart.
// CHECK: #[[HALF:.*]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-LABEL: func @tiles
// CHECK: scf.for %[[J:.*]] = %c0 to %c64 step %c2
// CHECK: %[[FIRST:.*]] = affine.apply #[[HALF]](%[[J]])
// CHECK: tensor.extract_slice {{.*}}[0, %[[FIRST]]] [4, 2] [1, 32]
// CHECK: tensor.insert_slice {{.*}}[0, %[[FIRST]]] [4, 2] [1, 32]
module attributes {transform.with_named_sequence} {
  func.func @tiles(%c: tensor<4x64xf32>) -> tensor<4x64xf32> {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %r = scf.for %j = %c0 to %c64 step %c2 iter_args(%t = %c) -> tensor<4x64xf32> {
      %x = tensor.extract_slice %t[0, %j] [4, 2] [1, 1] : tensor<4x64xf32> to tensor<4x2xf32>
      %y = math.exp %x : tensor<4x2xf32>
      %n = tensor.insert_slice %y into %t[0, %j] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x64xf32>
      scf.yield %n : tensor<4x64xf32>
    }
    return %r : tensor<4x64xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.spread_tiles %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @counted(%c: tensor<64xindex>) -> tensor<64xindex> {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    // expected-note @+1 {{payload operation}}
    %r = scf.for %j = %c0 to %c64 step %c2 iter_args(%t = %c) -> tensor<64xindex> {
      %n = tensor.insert %j into %t[%c0] : tensor<64xindex>
      scf.yield %n : tensor<64xindex>
    }
    return %r : tensor<64xindex>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a counter at which slices of a tile's size begin, and nothing else}}
    transform.tilewright.spread_tiles %0 : !transform.any_op
    transform.yield
  }
}
