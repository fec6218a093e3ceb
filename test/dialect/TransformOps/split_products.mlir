// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --cse --split-input-file | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// Both panels hold three entries. A loop that only sums becomes one for each pair of pieces, the smallest products first, each from the
// sums of the one before; what has NaN and Inf in it comes last.
// CHECK-LABEL: func @in_a_loop
// CHECK: %[[A:.*]] = memref.alloc() : memref<3x4x8xbf16>
// CHECK: %[[B:.*]] = memref.alloc() : memref<2x3x8x16xbf16>
// CHECK-COUNT-3: vector.transfer_write {{.*}} : vector<8xbf16>, memref<3x4x8xbf16>
// CHECK: %[[FIRST:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %arg2)
// CHECK-DAG: vector.transfer_read %[[A]][%c2{{.*}} : memref<3x4x8xbf16>
// CHECK-DAG: vector.transfer_read %[[B]][%c1, %c1{{.*}} : memref<2x3x8x16xbf16>
// CHECK: vector.contract
// CHECK: %[[SECOND:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[FIRST]])
// CHECK-DAG: vector.transfer_read %[[A]][%c1{{.*}} : memref<3x4x8xbf16>
// CHECK-DAG: vector.transfer_read %[[B]][%c1, %c2{{.*}} : memref<2x3x8x16xbf16>
// CHECK: %[[THIRD:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[SECOND]])
// CHECK-DAG: vector.transfer_read %[[A]][%c0{{.*}} : memref<3x4x8xbf16>
// CHECK-DAG: vector.transfer_read %[[B]][%c1, %c0{{.*}} : memref<2x3x8x16xbf16>
// CHECK: return %[[THIRD]]
func.func @in_a_loop(%row: vector<8xf32>, %rows: vector<2x16xf32>, %sums: vector<4x16xf32>) -> vector<4x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<4x8xf32>
  %b = memref.alloc() : memref<2x8x16xf32>
  vector.transfer_write %row, %a[%c1, %c0] {in_bounds = [true]} : vector<8xf32>, memref<4x8xf32>
  vector.transfer_write %rows, %b[%c1, %c2, %c0] {in_bounds = [true, true]} : vector<2x16xf32>, memref<2x8x16xf32>
  %result = scf.for %k = %c0 to %c8 step %c2 iter_args(%sum = %sums) -> vector<4x16xf32> {
    %x = vector.transfer_read %a[%c0, %k], %zero {in_bounds = [true, true]} : memref<4x8xf32>, vector<4x2xf32>
    %y = vector.transfer_read %b[%c1, %k, %c0], %zero {in_bounds = [true, true]} : memref<2x8x16xf32>, vector<2x16xf32>
    %next = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %x, %y, %sum : vector<4x2xf32>, vector<2x16xf32> into vector<4x16xf32>
    scf.yield %next : vector<4x16xf32>
  }
  return %result : vector<4x16xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.split_products %functions pieces 2 order 1 : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// Operands that no panel holds are split where they are multiplied: three pieces, all nine products.
// CHECK-LABEL: func @in_registers
// CHECK-COUNT-9: vector.contract
// CHECK-NOT: vector.contract
// CHECK: return
func.func @in_registers(%x: vector<4x2xf32>, %y: vector<2x16xf32>, %sum: vector<4x16xf32>) -> vector<4x16xf32> {
  %next = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
    %x, %y, %sum : vector<4x2xf32>, vector<2x16xf32> into vector<4x16xf32>
  return %next : vector<4x16xf32>
}

// Products of other types, and allocations that something else reads, stay as they are.
// CHECK-LABEL: func @others
// CHECK: memref.alloc() : memref<4x8xf32>
// CHECK: vector.contract {{.*}} : vector<4x2xf64>
// CHECK-NOT: vector.contract
// CHECK: return
func.func @others(%x: vector<4x2xf64>, %y: vector<2x16xf64>, %sum: vector<4x16xf64>, %row: vector<8xf32>) -> (vector<4x16xf64>, vector<8xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<4x8xf32>
  vector.transfer_write %row, %a[%c0, %c0] {in_bounds = [true]} : vector<8xf32>, memref<4x8xf32>
  %read = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true]} : memref<4x8xf32>, vector<8xf32>
  %next = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
    %x, %y, %sum : vector<4x2xf64>, vector<2x16xf64> into vector<4x16xf64>
  return %next, %read : vector<4x16xf64>, vector<8xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.split_products %functions pieces 3 order 4 : !transform.any_op
    transform.yield
  }
}
