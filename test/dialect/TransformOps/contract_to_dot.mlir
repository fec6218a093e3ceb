// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --transform-interpreter --canonicalize --cse | FileCheck %s

#a = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#b = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#c = affine_map<(m, n, ko, ki) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // From a panel: a register of B is one read, a group of A is read and broadcast; unsigned elements come first.
  // CHECK-LABEL: func.func @bytes
  // CHECK-SAME: %[[A:[a-z0-9]+]]: memref<2x64xi8>, %[[B:[a-z0-9]+]]: memref<16x128xi8>
  // CHECK-DAG: %[[B0:.*]] = vector.transfer_read %[[B]]{{.*}} vector<64xi8>
  // CHECK-DAG: %[[A0:.*]] = vector.transfer_read %[[A]]{{.*}} vector<4xi8>
  // CHECK-DAG: vector.bitcast %[[A0]] : vector<4xi8> to vector<1xi32>
  // CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"({{.*}}) : (vector<16xi32>, vector<64xi8>, vector<64xi8>)
  // CHECK-NOT: vector.contract
  // CHECK-NOT: llvm.call_intrinsic
  func.func @bytes(%a: memref<2x64xi8>, %b: memref<16x128xi8>, %z: vector<2x32xi32>) -> vector<2x32xi32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0 : i8
    %x = vector.transfer_read %a[%c0, %c0], %p {in_bounds = [true, true]} : memref<2x64xi8>, vector<2x4xi8>
    %y = vector.transfer_read %b[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x128xi8>, vector<1x128xi8>
    %x3 = vector.shape_cast %x : vector<2x4xi8> to vector<2x1x4xi8>
    %y3 = vector.shape_cast %y : vector<1x128xi8> to vector<1x32x4xi8>
    %l = arith.extui %x3 : vector<2x1x4xi8> to vector<2x1x4xi32>
    %r = arith.extsi %y3 : vector<1x32x4xi8> to vector<1x32x4xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z
         : vector<2x1x4xi32>, vector<1x32x4xi32> into vector<2x32xi32>
    return %d : vector<2x32xi32>
  }

  // Signed by unsigned: the operands change places.
  // CHECK-LABEL: func.func @swapped
  // CHECK-SAME: %{{[a-z0-9]+}}: vector<1x1x4xi8>, %[[Y:[a-z0-9]+]]: vector<1x16x4xi8>
  // CHECK: %[[FLAT:.*]] = vector.shape_cast %[[Y]] : vector<1x16x4xi8> to vector<64xi8>
  // CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %[[FLAT]], %{{.*}})
  func.func @swapped(%x: vector<1x1x4xi8>, %y: vector<1x16x4xi8>, %z: vector<1x16xi32>) -> vector<1x16xi32> {
    %l = arith.extsi %x : vector<1x1x4xi8> to vector<1x1x4xi32>
    %r = arith.extui %y : vector<1x16x4xi8> to vector<1x16x4xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z
         : vector<1x1x4xi32>, vector<1x16x4xi32> into vector<1x16xi32>
    return %d : vector<1x16xi32>
  }

  // Two signed operands are not what the instruction multiplies.
  // CHECK-LABEL: func.func @both_signed
  // CHECK: vector.contract
  func.func @both_signed(%x: vector<1x1x4xi8>, %y: vector<1x16x4xi8>, %z: vector<1x16xi32>) -> vector<1x16xi32> {
    %l = arith.extsi %x : vector<1x1x4xi8> to vector<1x1x4xi32>
    %r = arith.extsi %y : vector<1x16x4xi8> to vector<1x16x4xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z
         : vector<1x1x4xi32>, vector<1x16x4xi32> into vector<1x16xi32>
    return %d : vector<1x16xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_to_dot %f of i8 by "llvm.x86.avx512.vpdpbusd.512" depth 4 lanes 16 adds unsigned_first
      : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#b = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#c = affine_map<(m, n, ko, ki) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // Rows of B that were not packed are interleaved in registers; an instruction that does not add is followed by one.
  // CHECK-LABEL: func.func @unpacked
  // CHECK-SAME: %{{[a-z0-9]+}}: memref<4x8xi16>, %[[B:[a-z0-9]+]]: memref<8x8xi16>
  // CHECK-DAG: %[[EVEN:.*]] = vector.transfer_read %[[B]]{{.*}} vector<8xi16>
  // CHECK-DAG: %[[ODD:.*]] = vector.transfer_read %[[B]]{{.*}} vector<8xi16>
  // CHECK: %[[PAIRS:.*]] = vector.interleave %[[EVEN]], %[[ODD]]
  // CHECK: %[[PRODUCT:.*]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"(%[[PAIRS]], %{{.*}})
  // CHECK: arith.addi %{{.*}}, %[[PRODUCT]] : vector<8xi32>
  func.func @unpacked(%a: memref<4x8xi16>, %b: memref<8x8xi16>, %z: vector<4x8xi32>) -> vector<4x8xi32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0 : i16
    %x = vector.transfer_read %a[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x8xi16>, vector<4x2xi16>
    %y = vector.transfer_read %b[%c0, %c0], %p {in_bounds = [true, true]} : memref<8x8xi16>, vector<2x8xi16>
    %x3 = vector.shape_cast %x : vector<4x2xi16> to vector<4x1x2xi16>
    %y3 = vector.shape_cast %y : vector<2x8xi16> to vector<1x2x8xi16>
    %t = vector.transpose %y3, [0, 2, 1] : vector<1x2x8xi16> to vector<1x8x2xi16>
    %l = arith.extsi %x3 : vector<4x1x2xi16> to vector<4x1x2xi32>
    %r = arith.extsi %t : vector<1x8x2xi16> to vector<1x8x2xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z
         : vector<4x1x2xi32>, vector<1x8x2xi32> into vector<4x8xi32>
    return %d : vector<4x8xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_to_dot %f of i16 by "llvm.x86.avx2.pmadd.wd" depth 2 lanes 8 : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#b = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#c = affine_map<(m, n, ko, ki) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // Two registers of sums have a whole register of each row of B, which is read once for both.
  // CHECK-LABEL: func.func @whole_rows
  // CHECK-SAME: %{{[a-z0-9]+}}: memref<4x8xi16>, %[[B:[a-z0-9]+]]: memref<8x16xi16>
  // CHECK-COUNT-2: vector.transfer_read %[[B]]{{.*}} vector<16xi16>
  // CHECK-NOT: vector.transfer_read %[[B]]
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
  func.func @whole_rows(%a: memref<4x8xi16>, %b: memref<8x16xi16>, %z: vector<1x16xi32>) -> vector<1x16xi32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0 : i16
    %x = vector.transfer_read %a[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x8xi16>, vector<1x2xi16>
    %y = vector.transfer_read %b[%c0, %c0], %p {in_bounds = [true, true]} : memref<8x16xi16>, vector<2x16xi16>
    %x3 = vector.shape_cast %x : vector<1x2xi16> to vector<1x1x2xi16>
    %y3 = vector.shape_cast %y : vector<2x16xi16> to vector<1x2x16xi16>
    %t = vector.transpose %y3, [0, 2, 1] : vector<1x2x16xi16> to vector<1x16x2xi16>
    %l = arith.extsi %x3 : vector<1x1x2xi16> to vector<1x1x2xi32>
    %r = arith.extsi %t : vector<1x16x2xi16> to vector<1x16x2xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z
         : vector<1x1x2xi32>, vector<1x16x2xi32> into vector<1x16xi32>
    return %d : vector<1x16xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_to_dot %f of i16 by "llvm.x86.avx2.pmadd.wd" depth 2 lanes 8 : !transform.any_op
    transform.yield
  }
}
