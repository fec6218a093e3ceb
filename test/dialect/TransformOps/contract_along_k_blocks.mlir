// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -canonicalize -cse | FileCheck %s

#product = {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
            iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}

// Three sums of a row are added up together: even and odd elements of pairs of vectors, twice, and then the halves.
// CHECK-LABEL: func.func @row
// CHECK: %[[EVEN:.*]] = vector.shuffle %[[P:.*]], %[[Q:.*]] [0, 2, 8, 10, 4, 6, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK: %[[ODD:.*]] = vector.shuffle %[[P]], %[[Q]] [1, 3, 9, 11, 5, 7, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK: arith.addf %[[EVEN]], %[[ODD]] : vector<8xf32>
// CHECK: %[[LOW:.*]] = vector.extract_strided_slice %[[ALL:.*]] {offsets = [0], sizes = [4], strides = [1]}
// CHECK: %[[HIGH:.*]] = vector.extract_strided_slice %[[ALL]] {offsets = [4], sizes = [4], strides = [1]}
// CHECK: %[[SUMS:.*]] = arith.addf %[[LOW]], %[[HIGH]] : vector<4xf32>
// CHECK: vector.extract_strided_slice %[[SUMS]] {offsets = [0], sizes = [3], strides = [1]}
// CHECK-NOT: vector.reduction
func.func @row(%a: tensor<1x8xf32>, %b: tensor<3x8xf32>, %init: vector<1x3xf32>) -> vector<1x3xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x8xf32>, vector<1x8xf32>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<3x8xf32>, vector<3x8xf32>
  %all = vector.contract #product %x, %y, %init : vector<1x8xf32>, vector<3x8xf32> into vector<1x3xf32>
  return %all : vector<1x3xf32>
}

// One sum alone is added up in the same order.
// CHECK-LABEL: func.func @one
// CHECK: vector.shuffle %[[P:.*]], %[[P]] [0, 2, 8, 10, 4, 6, 12, 14]
// CHECK-NOT: vector.reduction
func.func @one(%a: tensor<1x8xf32>, %b: tensor<1x8xf32>, %init: vector<1x1xf32>) -> vector<1x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x8xf32>, vector<1x8xf32>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x8xf32>, vector<1x8xf32>
  %all = vector.contract #product %x, %y, %init : vector<1x8xf32>, vector<1x8xf32> into vector<1x1xf32>
  return %all : vector<1x1xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_along_k %functions lanes 8 blocks 128 : !transform.any_op
    transform.yield
  }
}
