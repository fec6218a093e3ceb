// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -split-input-file -verify-diagnostics | FileCheck %s

// Only the batch goes, though the matrix has one row, and the sum's type function stays. A lacks the second axis of the batch.
// CHECK-LABEL: func @product
//  CHECK-SAME:   (%[[A:[a-z0-9]+]]: tensor<1x1x6xi8>, %[[B:[a-z0-9]+]]: tensor<1x1x6x9xi8>, %[[C:[a-z0-9]+]]: tensor<1x1x1x9xi32>)
//   CHECK-DAG:   %[[A0:.*]] = tensor.extract_slice %[[A]]{{.*}} : tensor<1x1x6xi8> to tensor<1x6xi8>
//   CHECK-DAG:   %[[B0:.*]] = tensor.extract_slice %[[B]]{{.*}} : tensor<1x1x6x9xi8> to tensor<6x9xi8>
//   CHECK-DAG:   %[[C0:.*]] = tensor.extract_slice %[[C]]{{.*}} : tensor<1x1x1x9xi32> to tensor<1x9xi32>
//       CHECK:   %[[P:.*]] = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>, mark_product} ins(%[[A0]], %[[B0]] {{.*}} outs(%[[C0]]
//       CHECK:   tensor.insert_slice %[[P]] into %[[C]]
func.func @product(%a: tensor<1x1x6xi8>, %b: tensor<1x1x6x9xi8>, %c: tensor<1x1x1x9xi32>) -> tensor<1x1x1x9xi32> {
  %r = linalg.contract
    indexing_maps = [affine_map<(d, e, m, n, k) -> (d, m, k)>, affine_map<(d, e, m, n, k) -> (d, e, k, n)>,
                     affine_map<(d, e, m, n, k) -> (d, e, m, n)>]
    {cast = #linalg.type_fn<cast_unsigned>, mark_product}
    ins(%a, %b : tensor<1x1x6xi8>, tensor<1x1x6x9xi8>) outs(%c : tensor<1x1x1x9xi32>) -> tensor<1x1x1x9xi32>
  return %r : tensor<1x1x1x9xi32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %ops = transform.structured.match ops{["linalg.contract"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.drop_batch %ops count 2 : !transform.any_op
    transform.yield
  }
}

// -----

// A tile that goes back into a larger tensor goes there at once, also where an extent is not known.
// CHECK-LABEL: func @tiles
//       CHECK:   scf.for {{.*}} iter_args(%[[C:.*]] = %{{.*}})
//   CHECK-DAG:     %[[TILE:.*]] = tensor.extract_slice %[[C]]
//   CHECK-DAG:     %[[INTO:.*]] = tensor.extract_slice %[[TILE]]{{.*}} to tensor<4x?xf32>
//       CHECK:     %[[FILLED:.*]] = linalg.fill {{.*}} outs(%[[INTO]]
//       CHECK:     %[[NEW:.*]] = linalg.generic {{.*}} outs(%[[FILLED]]
//       CHECK:     %[[WHOLE:.*]] = tensor.insert_slice %[[NEW]] into %[[C]]{{.*}} : tensor<4x?xf32> into tensor<8x4x?xf32>
//       CHECK:     scf.yield %[[WHOLE]]
func.func @tiles(%x: tensor<4x?xf32>, %c: tensor<8x4x?xf32>, %n: index) -> tensor<8x4x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %b = %c0 to %c8 step %c1 iter_args(%acc = %c) -> (tensor<8x4x?xf32>) {
    %tile = tensor.extract_slice %acc[%b, 0, 0] [1, 4, %n] [1, 1, 1] : tensor<8x4x?xf32> to tensor<1x4x?xf32>
    %filled = linalg.fill ins(%zero : f32) outs(%tile : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
    %new = linalg.generic {
      indexing_maps = [affine_map<(b, m, n) -> (m, n)>, affine_map<(b, m, n) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<4x?xf32>) outs(%filled : tensor<1x4x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %sum = arith.addf %in, %out : f32
      linalg.yield %sum : f32
    } -> tensor<1x4x?xf32>
    %whole = tensor.insert_slice %new into %acc[%b, 0, 0] [1, 4, %n] [1, 1, 1] : tensor<1x4x?xf32> into tensor<8x4x?xf32>
    scf.yield %whole : tensor<8x4x?xf32>
  }
  return %r : tensor<8x4x?xf32>
}

// More than one entry: it stays.
// CHECK-LABEL: func @whole
//       CHECK:   linalg.fill {{.*}} -> tensor<2x4x4xf32>
func.func @whole(%c: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %r = linalg.fill ins(%zero : f32) outs(%c : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %r : tensor<2x4x4xf32>
}

// The dimension that a reshape added is not taken out of a slice: what was reshaped is taken.
// CHECK-LABEL: func @reshaped
//  CHECK-SAME:   %[[A:.*]]: tensor<4x8xf32>, %[[C:.*]]: tensor<1x4x8xf32>
//   CHECK-NOT:   tensor.expand_shape
//       CHECK:   %[[C0:.*]] = tensor.extract_slice %[[C]][0, 0, 0] [1, 4, 8]
//       CHECK:   linalg.generic {{.*}} ins(%[[A]] : tensor<4x8xf32>) outs(%[[C0]] : tensor<4x8xf32>)
func.func @reshaped(%a: tensor<4x8xf32>, %c: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %part = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 1, 8] : tensor<4x8xf32> into tensor<4x1x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(p, m, n) -> (m, p, n)>, affine_map<(p, m, n) -> (p, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%part : tensor<4x1x8xf32>) outs(%c : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<1x4x8xf32>
  return %r : tensor<1x4x8xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %ops = transform.structured.match interface{LinalgOp} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.drop_batch %ops count 1 : !transform.any_op
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
    } {apply_cse} : !transform.any_op
    transform.yield
  }
}
