// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file | FileCheck %s

module attributes {transform.with_named_sequence} {
  // Arguments get the types of their transposes, whose strides are the other way round, and sums are written transposed.
  // CHECK-DAG: #[[ID:[a-z0-9]+]] = affine_map<(d0, d1) -> (d0, d1)>
  // CHECK-DAG: #[[SWAPPED:[a-z0-9]+]] = affine_map<(d0, d1) -> (d1, d0)>
  // CHECK-LABEL: func.func @plain
  // CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<64x8xbf16> {bufferization.buffer_layout = strided<[1, ?]>}
  // CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<32x64xbf16> {bufferization.buffer_layout = strided<[?, 1]>}
  // CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<8x32xf32>
  // CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<32x8xf32>
  // CHECK: %[[SUMS:.*]] = linalg.matmul ins(%[[B]], %[[A]] : {{.*}}) outs(%[[ZEROS]] : tensor<32x8xf32>)
  // CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[SWAPPED]]]{{.*}} ins(%[[SUMS]] : {{.*}}) outs(%[[C]] : tensor<8x32xf32>)
  func.func @plain(%a: tensor<8x64xbf16> {bufferization.buffer_layout = strided<[?, 1]>},
                   %b: tensor<64x32xbf16> {bufferization.buffer_layout = strided<[1, ?]>},
                   %c: tensor<8x32xf32>) -> tensor<8x32xf32> {
    %zero = arith.constant 0.0 : f32
    %f = linalg.fill ins(%zero : f32) outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
    %r = linalg.matmul ins(%a, %b : tensor<8x64xbf16>, tensor<64x32xbf16>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
    return %r : tensor<8x32xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.exchange %f : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // What is done to the sums runs over (n, m); the first factor stays that of the first input.
  // CHECK-DAG: #[[ID:[a-z0-9]+]] = affine_map<(d0, d1) -> (d0, d1)>
  // CHECK-DAG: #[[FIRST:[a-z0-9]+]] = affine_map<(d0, d1) -> (d0)>
  // CHECK-DAG: #[[SWAPPED:[a-z0-9]+]] = affine_map<(d0, d1) -> (d1, d0)>
  // CHECK-LABEL: func.func @finished
  // CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<?x8xi8>, %[[B:[a-z0-9]+]]: tensor<32x?xi8>, %[[BIAS:[a-z0-9]+]]: tensor<32xi32>
  // CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[A]] : {{.*}})
  // CHECK-NEXT: ^bb0(%[[Y:.*]]: i8, %[[X:.*]]: i8, %{{.*}}: i32):
  // CHECK: %[[WIDE_X:.*]] = arith.extui %[[X]]
  // CHECK: %[[WIDE_Y:.*]] = arith.extsi %[[Y]]
  // CHECK: arith.muli %[[WIDE_Y]], %[[WIDE_X]]
  // CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[FIRST]], #[[SWAPPED]]]{{.*}} ins(%[[SUMS]], %[[BIAS]] : {{.*}})
  func.func @finished(%x: tensor<8x?xi8>, %y: tensor<?x32xi8>, %bias: tensor<32xi32>, %c: tensor<8x32xi32>) -> tensor<8x32xi32> {
    %zero = arith.constant 0 : i32
    %e = tensor.empty() : tensor<8x32xi32>
    %f = linalg.fill ins(%zero : i32) outs(%e : tensor<8x32xi32>) -> tensor<8x32xi32>
    %s = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<8x?xi8>, tensor<?x32xi8>) outs(%f : tensor<8x32xi32>) {
    ^bb0(%u: i8, %v: i8, %t: i32):
      %1 = arith.extui %u : i8 to i32
      %2 = arith.extsi %v : i8 to i32
      %3 = arith.muli %1, %2 : i32
      %4 = arith.addi %t, %3 : i32
      linalg.yield %4 : i32
    } -> tensor<8x32xi32>
    %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %bias : tensor<8x32xi32>, tensor<32xi32>) outs(%c : tensor<8x32xi32>) {
    ^bb0(%t: i32, %o: i32, %former: i32):
      %1 = arith.addi %t, %o : i32
      linalg.yield %1 : i32
    } -> tensor<8x32xi32>
    return %r : tensor<8x32xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.exchange %f : !transform.any_op
    transform.yield
  }
}
