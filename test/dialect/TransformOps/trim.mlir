// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter -canonicalize | FileCheck %s

// The sums end with the elements of a, in steps of 4.
// CHECK: #[[WHOLE:.*]] = affine_map<()[s0] -> ((s0 ceildiv 4) * 4)>
// CHECK-LABEL: func @product
module attributes {transform.with_named_sequence} {
  func.func @product(%a: tensor<6x?xf32>, %b: tensor<?x16xf32>, %c: tensor<6x16xf32>) -> tensor<6x16xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %k = tensor.dim %a, %c1 : tensor<6x?xf32>
    %n = affine.apply affine_map<(d0) -> (64 - d0)>(%k)
    %pa = tensor.pad %a nofold low[0, 0] high[0, %n] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<6x?xf32> to tensor<6x64xf32>
    %pb = tensor.pad %b nofold low[0, 0] high[%n, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<?x16xf32> to tensor<64x16xf32>
    // CHECK: %[[PA:.*]] = tensor.pad %arg0
    // CHECK: %[[PB:.*]] = tensor.pad %arg1
    // CHECK-DAG: %[[KA:.*]] = affine.apply #[[WHOLE]]
    // CHECK-DAG: %[[TA:.*]] = tensor.extract_slice %[[PA]][0, 0] [6, %[[KA]]]
    // CHECK-DAG: %[[TB:.*]] = tensor.extract_slice %[[PB]][0, 0] [%{{.*}}, 16]
    // CHECK: linalg.matmul ins(%[[TA]], %[[TB]] : tensor<6x?xf32>, tensor<?x16xf32>)
    %r = linalg.matmul ins(%pa, %pb : tensor<6x64xf32>, tensor<64x16xf32>) outs(%c : tensor<6x16xf32>) -> tensor<6x16xf32>
    return %r : tensor<6x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.tilewright.trim %0 multiple 4 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
