// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter | FileCheck %s

#at = affine_map<(k, n) -> (k, n)>
#group = affine_map<(k, n) -> (k floordiv 64, n)>
// B is read in the order of words of two, in blocks of 32; its scales, of groups of two blocks, as before. A is copied.
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1) -> ((d0 floordiv 32) * 32 + (d0 mod 16) * 2 + (d0 mod 32) floordiv 16, d1)>
// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1) -> (d0, (d1 floordiv 32) * 32 + (d1 mod 16) * 2 + (d1 mod 32) floordiv 16)>
// CHECK-DAG: #[[SCALE:.*]] = affine_map<(d0, d1) -> (d0 floordiv 64, d1)>
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func @product
module attributes {transform.with_named_sequence} {
  func.func @product(%a: tensor<2x128xf32>, %codes: tensor<128x8xi4>, %scales: tensor<2x8xf32>, %c: tensor<2x8xf32>) -> tensor<2x8xf32> {
    %e = tensor.empty() : tensor<128x8xf32>
    // CHECK: %[[FLOATS:.*]] = linalg.generic {indexing_maps = [#[[B]], #[[SCALE]], #[[SAME]]]
    %b = linalg.generic {indexing_maps = [#at, #group, #at], iterator_types = ["parallel", "parallel"]}
        ins(%codes, %scales : tensor<128x8xi4>, tensor<2x8xf32>) outs(%e : tensor<128x8xf32>) {
    ^bb0(%x: i4, %s: f32, %out: f32):
      %f = arith.sitofp %x : i4 to f32
      %y = arith.mulf %f, %s : f32
      linalg.yield %y : f32
    } -> tensor<128x8xf32>
    // CHECK: %[[COPY:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[SAME]]]{{.*}} ins(%arg0
    // CHECK: linalg.matmul ins(%[[COPY]], %[[FLOATS]]
    %r = linalg.matmul ins(%a, %b : tensor<2x128xf32>, tensor<128x8xf32>) outs(%c : tensor<2x8xf32>) -> tensor<2x8xf32>
    return %r : tensor<2x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.reorder_along_k %0 block 32 ways 2 : !transform.any_op
    transform.yield
  }
}
