// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -canonicalize -cse | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
            kind = #vector.kind<add>}

// Signed by signed bytes: A is turned, and what that adds to a column is summed up once for both rows.
// CHECK-LABEL: func.func @turned
// CHECK-SAME: %[[A:[a-z0-9]*]]: tensor<2x32xi8>
// CHECK-DAG: %[[BITS:.*]] = arith.constant dense<-128> : vector<32xi8>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0> : vector<8xi32>
// CHECK: %[[EXCESS:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%[[ZERO]], %[[BITS]], %[[B:.*]])
// CHECK: %[[X:.*]] = vector.transfer_read %[[A]]
// CHECK: %[[U:.*]] = arith.xori %[[X]], %[[BITS]]
// CHECK: %[[FIRST:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%[[ZERO]], %[[U]], %[[B]])
// CHECK: %[[SECOND:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"
// CHECK: arith.subi %[[FIRST]], %[[EXCESS]]
// CHECK: arith.subi %[[SECOND]], %[[EXCESS]]
func.func @turned(%a: tensor<2x32xi8>, %b: tensor<32x1xi8>, %init: vector<2x1xi32>) -> vector<2x1xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i8
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<2x32xi8>, vector<2x32xi8>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<32x1xi8>, vector<32x1xi8>
  %left = arith.extsi %x : vector<2x32xi8> to vector<2x32xi32>
  %right = arith.extsi %y : vector<32x1xi8> to vector<32x1xi32>
  %all = vector.contract #product %left, %right, %init : vector<2x32xi32>, vector<32x1xi32> into vector<2x1xi32>
  return %all : vector<2x1xi32>
}

// Of unsigned bytes, A becomes signed, and the unsigned B comes first.
// CHECK-LABEL: func.func @unsigned
// CHECK-DAG: %[[BITS:.*]] = arith.constant dense<-128> : vector<32xi8>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%{{[^,]*}}, %[[B:.*]], %[[BITS]])
// CHECK: %[[S:.*]] = arith.xori %{{.*}}, %[[BITS]]
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%{{[^,]*}}, %[[B]], %[[S]])
func.func @unsigned(%a: tensor<1x32xi8>, %b: tensor<32x1xi8>, %init: vector<1x1xi32>) -> vector<1x1xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i8
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x32xi8>, vector<1x32xi8>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<32x1xi8>, vector<32x1xi8>
  %left = arith.extui %x : vector<1x32xi8> to vector<1x32xi32>
  %right = arith.extui %y : vector<32x1xi8> to vector<32x1xi32>
  %all = vector.contract #product %left, %right, %init : vector<1x32xi32>, vector<32x1xi32> into vector<1x1xi32>
  return %all : vector<1x1xi32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_along_k %functions lanes 8 depth 4 of i8 by "llvm.x86.avx512.vpdpbusd.256" adds unsigned_first flip : !transform.any_op
    transform.yield
  }
}
