// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads of what a prologue makes become reads of what it is made from, and the prologue on vectors; others stay.
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --split-input-file | FileCheck %s

#id = affine_map<(k, n) -> (k, n)>
#row = affine_map<(k, n) -> (n)>

// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[B:.*]]: tensor<8x64xf8E4M3FN>, %[[S:.*]]: tensor<64xf32>, %[[J:.*]]: index
// CHECK-NOT: linalg.generic
// CHECK-DAG: %[[SCALES:.*]] = vector.transfer_read %[[S]][%[[J]]]{{.*}} vector<16xf32>
// CHECK-DAG: %[[FIRST:.*]] = vector.transfer_read %[[B]][%c2, %[[J]]]{{.*}} vector<16xf8E4M3FN>
// CHECK: %[[WIDE:.*]] = arith.extf %[[FIRST]] : vector<16xf8E4M3FN> to vector<16xf32>
// CHECK: arith.mulf %[[WIDE]], %[[SCALES]] : vector<16xf32>
// CHECK: vector.transfer_read %[[B]][%c3, %[[J]]]{{.*}} vector<16xf8E4M3FN>
// CHECK: vector.insert_strided_slice
func.func @rows(%b: tensor<8x64xf8E4M3FN>, %s: tensor<64xf32>, %j: index) -> vector<2x16xf32> {
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x64xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b, %s : tensor<8x64xf8E4M3FN>, tensor<64xf32>) outs(%empty : tensor<8x64xf32>) attrs = {own_batch = 0 : i64} {
  ^bb0(%x: f8E4M3FN, %y: f32, %z: f32):
    %w = arith.extf %x : f8E4M3FN to f32
    %m = arith.mulf %w, %y : f32
    linalg.yield %m : f32
  } -> tensor<8x64xf32>
  %v = vector.transfer_read %p[%c2, %j], %zero {in_bounds = [true, true]} : tensor<8x64xf32>, vector<2x16xf32>
  return %v : vector<2x16xf32>
}

// Of a slice, a vector that may end beyond it has zeros there. What is no prologue is left alone.
// CHECK-LABEL: func.func @slice
// CHECK: %[[KEPT:.*]] = linalg.generic
// CHECK: arith.uitofp
// CHECK: %[[READ:.*]] = vector.transfer_read %{{.*}} tensor<8x60xi8>, vector<16xi8>
// CHECK: %[[FLOATS:.*]] = arith.sitofp %[[READ]]
// CHECK: %[[MASK:.*]] = vector.create_mask
// CHECK: arith.select %[[MASK]], %[[FLOATS]]
// CHECK: vector.transfer_read %[[KEPT]]
func.func @slice(%b: tensor<8x60xi8>, %size: index) -> (vector<16xf32>, vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x60xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<8x60xi8>) outs(%empty : tensor<8x60xf32>) attrs = {own_batch = 0 : i64} {
  ^bb0(%x: i8, %z: f32):
    %w = arith.sitofp %x : i8 to f32
    linalg.yield %w : f32
  } -> tensor<8x60xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<8x60xi8>) outs(%empty : tensor<8x60xf32>) {
  ^bb0(%x: i8, %z: f32):
    %w = arith.uitofp %x : i8 to f32
    linalg.yield %w : f32
  } -> tensor<8x60xf32>
  %slice = tensor.extract_slice %p[1, 32] [1, %size] [1, 1] : tensor<8x60xf32> to tensor<1x?xf32>
  %v = vector.transfer_read %slice[%c0, %c0], %zero : tensor<1x?xf32>, vector<16xf32>
  %w = vector.transfer_read %q[%c0, %c0], %zero {in_bounds = [true]} : tensor<8x60xf32>, vector<16xf32>
  return %v, %w : vector<16xf32>, vector<16xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.compute_reads %functions : !transform.any_op
    transform.yield
  }
}
