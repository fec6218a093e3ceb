// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter | FileCheck %s

// A loop carries squares of two rows by two columns. Outside, rows are put together from the halves of two squares.
// CHECK-LABEL: func @carried
// CHECK: %[[SQUARES:.*]]:4 = scf.for {{.*}} iter_args({{.*}}) -> (vector<4xi32>, vector<4xi32>, vector<4xi32>, vector<4xi32>)
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.aarch64.neon.smmla.v4i32.v16i8"
// CHECK: scf.yield {{.*}} : vector<4xi32>, vector<4xi32>, vector<4xi32>, vector<4xi32>
// CHECK: vector.shuffle %[[SQUARES]]#0, %[[SQUARES]]#1 [0, 1, 4, 5]
// CHECK: vector.shuffle %[[SQUARES]]#0, %[[SQUARES]]#1 [2, 3, 6, 7]
func.func @carried(%a: memref<4x64xi8>, %b: memref<8x32xi8>, %c: vector<4x4xi32>) -> vector<4x4xi32> {
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %end = arith.constant 64 : index
  %pad = arith.constant 0 : i8
  %r = scf.for %k = %zero to %end step %step iter_args(%sum = %c) -> vector<4x4xi32> {
    %group = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%k)
    %0 = vector.transfer_read %a[%zero, %k], %pad {in_bounds = [true, true]} : memref<4x64xi8>, vector<4x16xi8>
    %1 = vector.transfer_read %b[%group, %zero], %pad {in_bounds = [true, true]} : memref<8x32xi8>, vector<2x32xi8>
    %2 = vector.shape_cast %0 : vector<4x16xi8> to vector<4x2x8xi8>
    %3 = vector.shape_cast %1 : vector<2x32xi8> to vector<2x4x8xi8>
    %4 = arith.extsi %2 : vector<4x2x8xi8> to vector<4x2x8xi32>
    %5 = arith.extsi %3 : vector<2x4x8xi8> to vector<2x4x8xi32>
    %6 = vector.contract {
      indexing_maps = [affine_map<(m, n, ko, ki) -> (m, ko, ki)>, affine_map<(m, n, ko, ki) -> (ko, n, ki)>,
                       affine_map<(m, n, ko, ki) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>
    } %4, %5, %sum : vector<4x2x8xi32>, vector<2x4x8xi32> into vector<4x4xi32>
    scf.yield %6 : vector<4x4xi32>
  }
  return %r : vector<4x4xi32>
}

// Three rows are no pairs.
// CHECK-LABEL: func @odd
// CHECK: vector.contract
func.func @odd(%a: vector<3x1x8xi8>, %b: vector<1x4x8xi8>, %c: vector<3x4xi32>) -> vector<3x4xi32> {
  %0 = arith.extsi %a : vector<3x1x8xi8> to vector<3x1x8xi32>
  %1 = arith.extsi %b : vector<1x4x8xi8> to vector<1x4x8xi32>
  %2 = vector.contract {
    indexing_maps = [affine_map<(m, n, ko, ki) -> (m, ko, ki)>, affine_map<(m, n, ko, ki) -> (ko, n, ki)>,
                     affine_map<(m, n, ko, ki) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>
  } %0, %1, %c : vector<3x1x8xi32>, vector<1x4x8xi32> into vector<3x4xi32>
  return %2 : vector<3x4xi32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_to_mmla %f of i8 by "llvm.aarch64.neon.smmla.v4i32.v16i8" depth 8 lanes 4 : !transform.any_op
    transform.yield
  }
}
