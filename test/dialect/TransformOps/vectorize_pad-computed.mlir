// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --split-input-file | FileCheck %s

#id = affine_map<(k, n) -> (k, n)>
#column = affine_map<(k, n) -> (n)>
module attributes {transform.with_named_sequence} {
  // Each element is computed while it is copied, from where the slice lies in the inputs; what is padded stays zero.
  // CHECK-LABEL: func.func @scaled
  // CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<64x70xi8>, %[[S:[a-z0-9]+]]: tensor<70xf32>
  // CHECK-SAME: %[[J:[a-z0-9]+]]: index
  // CHECK-NOT: linalg.generic
  // CHECK: scf.if
  // CHECK: scf.for
  // CHECK: %[[X:.*]] = vector.transfer_read %[[B]][%{{.*}}, %[[J]]], {{.*}}in_bounds = [true]{{.*}} : tensor<64x70xi8>, vector<16xi8>
  // CHECK: %[[Y:.*]] = vector.transfer_read %[[S]][%[[J]]], {{.*}}in_bounds = [true]{{.*}} : tensor<70xf32>, vector<16xf32>
  // CHECK: %[[F:.*]] = arith.sitofp %[[X]] : vector<16xi8> to vector<16xf32>
  // CHECK: %[[P:.*]] = arith.mulf %[[F]], %[[Y]]
  // CHECK-NEXT: vector.transfer_write %[[P]]
  // CHECK: else
  // CHECK: %[[P:.*]] = arith.mulf
  // CHECK: %[[MASK:.*]] = vector.create_mask %{{.*}} : vector<16xi1>
  // CHECK: %[[Z:.*]] = arith.select %[[MASK]], %[[P]], %{{.*}}
  // CHECK-NEXT: vector.transfer_write %[[Z]]
  func.func @scaled(%b: tensor<64x70xi8>, %s: tensor<70xf32>, %j: index, %w: index, %h: index) -> tensor<32x16xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x70xf32>
    %f = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b, %s : tensor<64x70xi8>, tensor<70xf32>) outs(%e : tensor<64x70xf32>) {
    ^bb0(%x: i8, %y: f32, %former: f32):
      %0 = arith.sitofp %x : i8 to f32
      %1 = arith.mulf %0, %y : f32
      linalg.yield %1 : f32
    } -> tensor<64x70xf32>
    %part = tensor.extract_slice %f[8, %j] [32, %w] [1, 1] : tensor<64x70xf32> to tensor<32x?xf32>
    %p = tensor.pad %part nofold low[0, 0] high[0, %h] {
    ^bb0(%r: index, %c: index):
      tensor.yield %z : f32
    } : tensor<32x?xf32> to tensor<32x16xf32>
    return %p : tensor<32x16xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %0 lanes 16 computed : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
module attributes {transform.with_named_sequence} {
  // The number of a row is read once for all of its elements.
  // CHECK-LABEL: func.func @gathered
  // CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<?x16xf32>, %[[I:[a-z0-9]+]]: tensor<64xi32>
  // CHECK: scf.for %[[R:[a-z0-9]+]] =
  // CHECK: %[[N:.*]] = tensor.extract %[[I]][%{{.*}}]
  // CHECK: %[[ROW:.*]] = arith.index_cast %[[N]]
  // CHECK: vector.transfer_read %[[T]][%[[ROW]], %c0]{{.*}} : tensor<?x16xf32>, vector<16xf32>
  // CHECK-NOT: tensor.extract
  func.func @gathered(%t: tensor<?x16xf32>, %i: tensor<64xi32>, %m: index) -> tensor<6x16xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x16xf32>
    %f = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<64xi32>) outs(%e : tensor<64x16xf32>) {
    ^bb0(%x: i32, %former: f32):
      %0 = arith.index_cast %x : i32 to index
      %1 = linalg.index 1 : index
      %2 = tensor.extract %t[%0, %1] : tensor<?x16xf32>
      linalg.yield %2 : f32
    } -> tensor<64x16xf32>
    %part = tensor.extract_slice %f[%m, 0] [6, 16] [1, 1] : tensor<64x16xf32> to tensor<6x16xf32>
    %p = tensor.pad %part nofold low[0, 0] high[0, 0] {
    ^bb0(%r: index, %c: index):
      tensor.yield %z : f32
    } : tensor<6x16xf32> to tensor<6x16xf32>
    return %p : tensor<6x16xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %0 lanes 16 computed : !transform.any_op
    transform.yield
  }
}
