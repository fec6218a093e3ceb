// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s -transform-interpreter -canonicalize -cse | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
            kind = #vector.kind<add>}
#turned = {indexing_maps = [#a, affine_map<(m, n, k) -> (n, k)>, #c], iterator_types = ["parallel", "parallel", "reduction"],
           kind = #vector.kind<add>}

// A loop over full steps, and a short step after it, which adds to the same partial sums.
// CHECK-LABEL: func.func @loop_and_tail
// CHECK-SAME: %[[A:.*]]: tensor<2x21xf32>, %[[B:.*]]: tensor<21x1xf32>, %[[INIT:.*]]: vector<2x1xf32>
// CHECK: %[[P:.*]]:2 = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-2: vector.fma {{.*}} : vector<8xf32>
// CHECK-NEXT: scf.yield
// CHECK: vector.fma {{.*}}, %[[P]]#0
// CHECK: vector.fma {{.*}}, %[[P]]#1
// CHECK-COUNT-2: vector.reduction <add>
// CHECK-NOT: vector.reduction
// CHECK: %[[SUM:.*]] = vector.from_elements
// CHECK: arith.addf %[[INIT]], %[[SUM]]
func.func @loop_and_tail(%a: tensor<2x21xf32>, %b: tensor<21x1xf32>, %init: vector<2x1xf32>) -> vector<2x1xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %sums = scf.for %k = %c0 to %c16 step %c8 iter_args(%acc = %init) -> (vector<2x1xf32>) {
    %x = vector.transfer_read %a[%c0, %k], %zero {in_bounds = [true, true]} : tensor<2x21xf32>, vector<2x8xf32>
    %y = vector.transfer_read %b[%k, %c0], %zero {in_bounds = [true, true]} : tensor<21x1xf32>, vector<8x1xf32>
    %next = vector.contract #product %x, %y, %acc : vector<2x8xf32>, vector<8x1xf32> into vector<2x1xf32>
    scf.yield %next : vector<2x1xf32>
  }
  %x = vector.transfer_read %a[%c0, %c16], %zero {in_bounds = [true, false]} : tensor<2x21xf32>, vector<2x8xf32>
  %y = vector.transfer_read %b[%c16, %c0], %zero {in_bounds = [false, true]} : tensor<21x1xf32>, vector<8x1xf32>
  %all = vector.contract #product %x, %y, %sums : vector<2x8xf32>, vector<8x1xf32> into vector<2x1xf32>
  return %all : vector<2x1xf32>
}

// A second loop, for a short step that there may be, goes on with the partial sums of the first one.
// CHECK-LABEL: func.func @two_loops
// CHECK: %[[P:.*]] = scf.for
// CHECK-NOT: vector.reduction
// CHECK: scf.for {{.*}} = %[[P]])
// CHECK: vector.reduction <add>
// CHECK-NOT: vector.reduction
func.func @two_loops(%a: tensor<1x?xf32>, %b: tensor<?x1xf32>, %whole: index, %end: index, %init: vector<1x1xf32>)
    -> vector<1x1xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %sums = scf.for %k = %c0 to %whole step %c8 iter_args(%acc = %init) -> (vector<1x1xf32>) {
    %x = vector.transfer_read %a[%c0, %k], %zero {in_bounds = [true, true]} : tensor<1x?xf32>, vector<1x8xf32>
    %y = vector.transfer_read %b[%k, %c0], %zero {in_bounds = [true, true]} : tensor<?x1xf32>, vector<8x1xf32>
    %next = vector.contract #product %x, %y, %acc : vector<1x8xf32>, vector<8x1xf32> into vector<1x1xf32>
    scf.yield %next : vector<1x1xf32>
  }
  %all = scf.for %k = %whole to %end step %c8 iter_args(%acc = %sums) -> (vector<1x1xf32>) {
    %x = vector.transfer_read %a[%c0, %k], %zero {in_bounds = [true, false]} : tensor<1x?xf32>, vector<1x8xf32>
    %y = vector.transfer_read %b[%k, %c0], %zero {in_bounds = [false, true]} : tensor<?x1xf32>, vector<8x1xf32>
    %next = vector.contract #product %x, %y, %acc : vector<1x8xf32>, vector<8x1xf32> into vector<1x1xf32>
    scf.yield %next : vector<1x1xf32>
  }
  return %all : vector<1x1xf32>
}

// A B whose rows are along k is read as it lies.
// CHECK-LABEL: func.func @staged
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x16xf32>, %[[B:[a-z0-9]+]]: tensor<2x16xf32>
// CHECK: scf.for %[[K:[a-z0-9]+]] = {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-DAG: vector.transfer_read %[[B]][%c0, %[[K]]], {{.*}} vector<8xf32>
// CHECK-DAG: vector.transfer_read %[[B]][%c1, %[[K]]], {{.*}} vector<8xf32>
// CHECK: scf.yield
// CHECK-COUNT-4: vector.reduction <add>
func.func @staged(%a: tensor<2x16xf32>, %b: tensor<2x16xf32>, %init: vector<2x2xf32>) -> vector<2x2xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %sums = scf.for %k = %c0 to %c16 step %c8 iter_args(%acc = %init) -> (vector<2x2xf32>) {
    %x = vector.transfer_read %a[%c0, %k], %zero {in_bounds = [true, true]} : tensor<2x16xf32>, vector<2x8xf32>
    %y = vector.transfer_read %b[%c0, %k], %zero {in_bounds = [true, true]} : tensor<2x16xf32>, vector<2x8xf32>
    %next = vector.contract #turned %x, %y, %acc : vector<2x8xf32>, vector<2x8xf32> into vector<2x2xf32>
    scf.yield %next : vector<2x2xf32>
  }
  return %sums : vector<2x2xf32>
}

// Signed by unsigned bytes: the intrinsic takes the unsigned first, as they are.
// CHECK-LABEL: func.func @bytes
// CHECK-SAME: %[[A:[a-z0-9]*]]: tensor<1x32xi8>, %[[B:[a-z0-9]*]]: tensor<32x2xi8>
// CHECK-NOT: arith.ext
// CHECK: %[[X:.*]] = vector.transfer_read %[[A]]{{.*}} vector<32xi8>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%{{[^,]*}}, %{{[^,]*}}, %[[X]])
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"
// CHECK-NOT: vector.contract
func.func @bytes(%a: tensor<1x32xi8>, %b: tensor<32x2xi8>, %init: vector<1x2xi32>) -> vector<1x2xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i8
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x32xi8>, vector<1x32xi8>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<32x2xi8>, vector<32x2xi8>
  %signed = arith.extsi %x : vector<1x32xi8> to vector<1x32xi32>
  %unsigned = arith.extui %y : vector<32x2xi8> to vector<32x2xi32>
  %all = vector.contract #product %signed, %unsigned, %init : vector<1x32xi32>, vector<32x2xi32> into vector<1x2xi32>
  return %all : vector<1x2xi32>
}

// Twelve elements are no whole vectors: it is left alone.
// CHECK-LABEL: func.func @short
// CHECK: vector.contract
func.func @short(%a: tensor<1x12xf32>, %b: tensor<12x1xf32>, %init: vector<1x1xf32>) -> vector<1x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<1x12xf32>, vector<1x12xf32>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<12x1xf32>, vector<12x1xf32>
  %all = vector.contract #product %x, %y, %init : vector<1x12xf32>, vector<12x1xf32> into vector<1x1xf32>
  return %all : vector<1x1xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_along_k %functions lanes 8 depth 4 of i8 by "llvm.x86.avx512.vpdpbusd.256" adds unsigned_first : !transform.any_op
    transform.yield
  }
}
