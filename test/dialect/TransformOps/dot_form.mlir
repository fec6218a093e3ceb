// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --transform-interpreter | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // CHECK-DAG: #[[A:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
  // CHECK-DAG: #[[B:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>
  // CHECK-DAG: #[[C:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
  // CHECK-LABEL: func.func @pairs
  // CHECK-SAME: %[[X:[a-z0-9]+]]: vector<6x4xbf16>, %[[Y:[a-z0-9]+]]: vector<4x32xbf16>, %[[Z:[a-z0-9]+]]: vector<6x32xf32>
  // CHECK: %[[X3:.*]] = vector.shape_cast %[[X]] : vector<6x4xbf16> to vector<6x2x2xbf16>
  // CHECK: %[[L:.*]] = arith.extf %[[X3]]
  // CHECK: %[[Y3:.*]] = vector.shape_cast %[[Y]] : vector<4x32xbf16> to vector<2x2x32xbf16>
  // CHECK: %[[T:.*]] = vector.transpose %[[Y3]], [0, 2, 1] : vector<2x2x32xbf16> to vector<2x32x2xbf16>
  // CHECK: %[[R:.*]] = arith.extf %[[T]]
  // CHECK-NOT: arith.extf
  // CHECK: vector.contract {indexing_maps = [#[[A]], #[[B]], #[[C]]]{{.*}}} %[[L]], %[[R]], %[[Z]]
  func.func @pairs(%x: vector<6x4xbf16>, %y: vector<4x32xbf16>, %z: vector<6x32xf32>) -> vector<6x32xf32> {
    %l = arith.extf %x : vector<6x4xbf16> to vector<6x4xf32>
    %r = arith.extf %y : vector<4x32xbf16> to vector<4x32xf32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z : vector<6x4xf32>, vector<4x32xf32> into vector<6x32xf32>
    return %d : vector<6x32xf32>
  }

  // Three elements are no whole groups of two.
  // CHECK-LABEL: func.func @odd
  // CHECK: vector.contract {{.*}} vector<6x3xf32>, vector<3x32xf32>
  func.func @odd(%x: vector<6x3xbf16>, %y: vector<3x32xbf16>, %z: vector<6x32xf32>) -> vector<6x32xf32> {
    %l = arith.extf %x : vector<6x3xbf16> to vector<6x3xf32>
    %r = arith.extf %y : vector<3x32xbf16> to vector<3x32xf32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z : vector<6x3xf32>, vector<3x32xf32> into vector<6x32xf32>
    return %d : vector<6x32xf32>
  }

  // Elements of another type.
  // CHECK-LABEL: func.func @other
  // CHECK: vector.contract {{.*}} vector<6x4xf32>, vector<4x32xf32>
  func.func @other(%x: vector<6x4xf16>, %y: vector<4x32xf16>, %z: vector<6x32xf32>) -> vector<6x32xf32> {
    %l = arith.extf %x : vector<6x4xf16> to vector<6x4xf32>
    %r = arith.extf %y : vector<4x32xf16> to vector<4x32xf32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z : vector<6x4xf32>, vector<4x32xf32> into vector<6x32xf32>
    return %d : vector<6x32xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.dot_form %f of bf16 depth 2 : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // Operands that instructions multiply in a wider type are extended to that first; from there on they have a sign.
  // CHECK-LABEL: func.func @stored
  // CHECK: arith.extui %{{.*}} : vector<6x2xi8> to vector<6x2xi16>
  // CHECK: arith.extsi %{{.*}} : vector<6x1x2xi16> to vector<6x1x2xi32>
  // CHECK: arith.extsi %{{.*}} : vector<2x32xi8> to vector<2x32xi16>
  // CHECK: arith.extsi %{{.*}} : vector<1x32x2xi16> to vector<1x32x2xi32>
  func.func @stored(%x: vector<6x2xi8>, %y: vector<2x32xi8>, %z: vector<6x32xi32>) -> vector<6x32xi32> {
    %l = arith.extui %x : vector<6x2xi8> to vector<6x2xi32>
    %r = arith.extsi %y : vector<2x32xi8> to vector<2x32xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z : vector<6x2xi32>, vector<2x32xi32> into vector<6x32xi32>
    return %d : vector<6x32xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.dot_form %f of i8 depth 2 storage i16 : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // The sums of B's columns are made once for a panel of B, not for every tile of rows, and taken off the start.
  // CHECK-LABEL: func.func @flipped
  // CHECK: %[[PANEL:.*]] = memref.alloc
  // CHECK: %[[EXCESS:.*]] = scf.for {{.*}} -> (vector<1x16xi32>)
  // CHECK: vector.transfer_read %[[PANEL]]
  // CHECK: scf.for
  // CHECK: %[[ROWS:.*]] = vector.broadcast %[[EXCESS]] : vector<1x16xi32> to vector<6x16xi32>
  // CHECK: %[[START:.*]] = arith.subi %{{.*}}, %[[ROWS]]
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[START]])
  // CHECK: %[[A:.*]] = vector.transfer_read
  // CHECK: %[[FLIPPED:.*]] = arith.xori %[[A]], %{{.*}} : vector<6x4xi8>
  // CHECK: %[[GROUPED:.*]] = vector.shape_cast %[[FLIPPED]]
  // CHECK: arith.extui %[[GROUPED]]
  func.func @flipped(%a: memref<60x64xi8>, %c: memref<60x16xi32>) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c6 = arith.constant 6 : index
    %c60 = arith.constant 60 : index
    %c64 = arith.constant 64 : index
    %p = arith.constant 0 : i8
    %zero = arith.constant dense<0> : vector<6x16xi32>
    %panel = memref.alloc() : memref<64x16xi8>
    scf.for %i = %c0 to %c60 step %c6 {
      %sum = scf.for %k = %c0 to %c64 step %c4 iter_args(%s = %zero) -> vector<6x16xi32> {
        %x = vector.transfer_read %a[%i, %k], %p {in_bounds = [true, true]} : memref<60x64xi8>, vector<6x4xi8>
        %y = vector.transfer_read %panel[%k, %c0], %p {in_bounds = [true, true]} : memref<64x16xi8>, vector<4x16xi8>
        %l = arith.extsi %x : vector<6x4xi8> to vector<6x4xi32>
        %r = arith.extsi %y : vector<4x16xi8> to vector<4x16xi32>
        %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                              kind = #vector.kind<add>} %l, %r, %s
             : vector<6x4xi32>, vector<4x16xi32> into vector<6x16xi32>
        scf.yield %d : vector<6x16xi32>
      }
      vector.transfer_write %sum, %c[%i, %c0] {in_bounds = [true, true]} : vector<6x16xi32>, memref<60x16xi32>
    }
    return
  }

  // What the loop over rows writes may be B itself: its sums stay inside.
  // CHECK-LABEL: func.func @written
  // CHECK: scf.for
  // CHECK: scf.for {{.*}} -> (vector<1x16xi32>)
  func.func @written(%a: memref<60x64xi8>, %b: memref<64x16xi8>, %c: memref<60x16xi32>) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c6 = arith.constant 6 : index
    %c60 = arith.constant 60 : index
    %c64 = arith.constant 64 : index
    %p = arith.constant 0 : i8
    %zero = arith.constant dense<0> : vector<6x16xi32>
    scf.for %i = %c0 to %c60 step %c6 {
      %sum = scf.for %k = %c0 to %c64 step %c4 iter_args(%s = %zero) -> vector<6x16xi32> {
        %x = vector.transfer_read %a[%i, %k], %p {in_bounds = [true, true]} : memref<60x64xi8>, vector<6x4xi8>
        %y = vector.transfer_read %b[%k, %c0], %p {in_bounds = [true, true]} : memref<64x16xi8>, vector<4x16xi8>
        %l = arith.extsi %x : vector<6x4xi8> to vector<6x4xi32>
        %r = arith.extsi %y : vector<4x16xi8> to vector<4x16xi32>
        %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                              kind = #vector.kind<add>} %l, %r, %s
             : vector<6x4xi32>, vector<4x16xi32> into vector<6x16xi32>
        scf.yield %d : vector<6x16xi32>
      }
      vector.transfer_write %sum, %c[%i, %c0] {in_bounds = [true, true]} : vector<6x16xi32>, memref<60x16xi32>
    }
    return
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.dot_form %f of i8 depth 4 flip : !transform.any_op
    transform.yield
  }
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module attributes {transform.with_named_sequence} {
  // Instructions that multiply two rows at once do not multiply three.
  // CHECK-LABEL: func.func @three_rows
  // CHECK: vector.contract {{.*}} vector<3x8xi32>, vector<8x16xi32>
  func.func @three_rows(%x: vector<3x8xi8>, %y: vector<8x16xi8>, %z: vector<3x16xi32>) -> vector<3x16xi32> {
    %l = arith.extsi %x : vector<3x8xi8> to vector<3x8xi32>
    %r = arith.extsi %y : vector<8x16xi8> to vector<8x16xi32>
    %d = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
                          kind = #vector.kind<add>} %l, %r, %z : vector<3x8xi32>, vector<8x16xi32> into vector<3x16xi32>
    return %d : vector<3x16xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.dot_form %f of i8 depth 8 rows 2 : !transform.any_op
    transform.yield
  }
}
