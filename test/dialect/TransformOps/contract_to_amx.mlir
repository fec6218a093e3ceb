// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --cse | FileCheck %s

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

module attributes {transform.with_named_sequence} {
  // A 2 x 2 block of tiles is carried; each step loads two tiles of A and two of B, each right before the first of four products that needs it.

  // CHECK: #[[NO_UNROLLING:.*]] = #llvm.loop_unroll<disable = true>
  // CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #[[NO_UNROLLING]]>
  // CHECK-LABEL: func.func @carried
  // CHECK-SAME: %[[PA:[a-z0-9]+]]: memref<?x32x512xbf16>, %[[PB:[a-z0-9]+]]: memref<?x256x64xbf16>, %[[C:[a-z0-9]+]]: memref<?x?xf32>
  // CHECK-SAME: %[[I:[a-z0-9]+]]: index, %[[J:[a-z0-9]+]]: index
  // CHECK-COUNT-4: amx.tile_zero : !amx.tile<16x16xf32>
  // CHECK-NOT: vector
  // CHECK: %[[R:.*]]:4 = scf.for %[[K:.*]] = %c0 to %c512 step %c32 iter_args(%[[S00:.*]] = %{{.*}}, %[[S01:.*]] = %{{.*}}, %[[S10:.*]] = %{{.*}}, %[[S11:.*]] = %{{[^)]*}})
  // CHECK: %[[KF:.*]] = arith.shrui %[[K]], %c1
  // CHECK: %[[B0:.*]] = amx.tile_load %[[PB]][%[[J]], %[[KF]], %c0] : memref<?x256x64xbf16> into !amx.tile<16x32xbf16>
  // CHECK: %[[A0:.*]] = amx.tile_load %[[PA]][%[[I]], %c0, %[[K]]] : memref<?x32x512xbf16> into !amx.tile<16x32xbf16>
  // CHECK: %[[D00:.*]] = amx.tile_mulf %[[A0]], %[[B0]], %[[S00]]
  // CHECK: %[[A1:.*]] = amx.tile_load %[[PA]][%[[I]], %c16, %[[K]]]
  // CHECK: %[[D10:.*]] = amx.tile_mulf %[[A1]], %[[B0]], %[[S10]]
  // CHECK: %[[B1:.*]] = amx.tile_load %[[PB]][%[[J]], %[[KF]], %c32]
  // CHECK: %[[D01:.*]] = amx.tile_mulf %[[A0]], %[[B1]], %[[S01]]
  // CHECK: %[[D11:.*]] = amx.tile_mulf %[[A1]], %[[B1]], %[[S11]]
  // CHECK: scf.yield %[[D00]], %[[D01]], %[[D10]], %[[D11]]
  // CHECK: llvm.loop_annotation = #[[ROLLED]]
  // CHECK-DAG: amx.tile_store %[[C]][%[[I]], %[[J]]], %[[R]]#0
  // CHECK-DAG: amx.tile_store %[[C]][%[[I]], %{{.*}}], %[[R]]#1
  // CHECK-DAG: amx.tile_store %[[C]][%{{.*}}, %[[J]]], %[[R]]#2
  // CHECK-DAG: amx.tile_store %[[C]][%{{.*}}, %{{.*}}], %[[R]]#3
  // CHECK-NOT: vector
  // CHECK: return
  func.func @carried(%pa: memref<?x32x512xbf16>, %pb: memref<?x256x64xbf16>, %c: memref<?x?xf32>, %i: index, %j: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c512 = arith.constant 512 : index
    %p = arith.constant 0.0 : bf16
    %zeros = arith.constant dense<0.0> : vector<32x32xf32>
    %r = scf.for %k = %c0 to %c512 step %c32 iter_args(%acc = %zeros) -> (vector<32x32xf32>) {
      %kf = arith.shrui %k, %c1 : index
      %a0 = vector.transfer_read %pa[%i, %c0, %k], %p {in_bounds = [true, true]} : memref<?x32x512xbf16>, vector<32x32xbf16>
      %a1 = vector.shape_cast %a0 : vector<32x32xbf16> to vector<32x16x2xbf16>
      %b0 = vector.transfer_read %pb[%j, %kf, %c0], %p {in_bounds = [true, true]} : memref<?x256x64xbf16>, vector<16x64xbf16>
      %b1 = vector.shape_cast %b0 : vector<16x64xbf16> to vector<16x32x2xbf16>
      %a2 = arith.extf %a1 : vector<32x16x2xbf16> to vector<32x16x2xf32>
      %b2 = arith.extf %b1 : vector<16x32x2xbf16> to vector<16x32x2xf32>
      %d = vector.contract #dot %a2, %b2, %acc : vector<32x16x2xf32>, vector<16x32x2xf32> into vector<32x32xf32>
      scf.yield %d : vector<32x32xf32>
    }
    vector.transfer_write %r, %c[%i, %j] {in_bounds = [true, true]} : vector<32x32xf32>, memref<?x?xf32>
    return
  }

  // Without a loop, from C and back to it.

  // CHECK-LABEL: func.func @straight
  // CHECK-SAME: %[[PA:[a-z0-9]+]]: memref<16x64xi8>, %[[PB:[a-z0-9]+]]: memref<16x64xi8>, %[[C:[a-z0-9]+]]: memref<16x16xi32, strided<[?, 1]>>
  // CHECK: %[[S:.*]] = amx.tile_load %[[C]][%c0, %c0] : {{.*}} into !amx.tile<16x16xi32>
  // CHECK: %[[B:.*]] = amx.tile_load %[[PB]][%c0, %c0]
  // CHECK: %[[A:.*]] = amx.tile_load %[[PA]][%c0, %c0] : memref<16x64xi8> into !amx.tile<16x64xi8>
  // CHECK: %[[D:.*]] = amx.tile_muli %[[A]] zext, %[[B]], %[[S]]
  // CHECK: amx.tile_store %[[C]][%c0, %c0], %[[D]]
  func.func @straight(%pa: memref<16x64xi8>, %pb: memref<16x64xi8>, %c: memref<16x16xi32, strided<[?, 1]>>) {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0 : i8
    %q = arith.constant 0 : i32
    %acc = vector.transfer_read %c[%c0, %c0], %q {in_bounds = [true, true]} : memref<16x16xi32, strided<[?, 1]>>, vector<16x16xi32>
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x64xi8>, vector<16x64xi8>
    %a1 = vector.shape_cast %a0 : vector<16x64xi8> to vector<16x16x4xi8>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x64xi8>, vector<16x64xi8>
    %b1 = vector.shape_cast %b0 : vector<16x64xi8> to vector<16x16x4xi8>
    %a2 = arith.extui %a1 : vector<16x16x4xi8> to vector<16x16x4xi32>
    %b2 = arith.extsi %b1 : vector<16x16x4xi8> to vector<16x16x4xi32>
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
    vector.transfer_write %d, %c[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<16x16xi32, strided<[?, 1]>>
    return
  }

  // Signs by the extensions; tiles of fewer rows and columns; two steps of k at once, and less than one left alone.

  // CHECK-LABEL: func.func @shapes
  // CHECK: amx.tile_load %{{.*}} into !amx.tile<16x16xi8>
  // CHECK: amx.tile_load %{{.*}} into !amx.tile<6x64xi8>
  // CHECK: amx.tile_muli %{{[0-9]+}}, %{{[0-9]+}} zext, %{{.*}} : !amx.tile<6x64xi8>, !amx.tile<16x16xi8>, !amx.tile<6x4xi32>
  // CHECK: amx.tile_muli %{{[0-9]+}}, %{{[0-9]+}} zext,
  // CHECK: amx.tile_muli %{{[0-9]+}} zext, %{{[0-9]+}} zext,
  // CHECK: amx.tile_muli %{{[0-9]+}} zext, %{{[0-9]+}} zext,
  // CHECK-NOT: tile_mul
  // CHECK: vector.contract {{.*}} : vector<6x3x4xi32>
  func.func @shapes(%pa: memref<6x128xi8>, %pb: memref<32x16xi8>, %c: memref<6x4xi32>) {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0 : i8
    %zeros = arith.constant dense<0> : vector<6x4xi32>
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<6x128xi8>, vector<6x128xi8>
    %a1 = vector.shape_cast %a0 : vector<6x128xi8> to vector<6x32x4xi8>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<32x16xi8>, vector<32x16xi8>
    %b1 = vector.shape_cast %b0 : vector<32x16xi8> to vector<32x4x4xi8>
    %a2 = arith.extsi %a1 : vector<6x32x4xi8> to vector<6x32x4xi32>
    %b2 = arith.extui %b1 : vector<32x4x4xi8> to vector<32x4x4xi32>
    %d = vector.contract #dot %a2, %b2, %zeros : vector<6x32x4xi32>, vector<32x4x4xi32> into vector<6x4xi32>
    %a3 = arith.extui %a1 : vector<6x32x4xi8> to vector<6x32x4xi32>
    %e = vector.contract #dot %a3, %b2, %d : vector<6x32x4xi32>, vector<32x4x4xi32> into vector<6x4xi32>
    %x0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<6x128xi8>, vector<6x12xi8>
    %x1 = vector.shape_cast %x0 : vector<6x12xi8> to vector<6x3x4xi8>
    %y0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<32x16xi8>, vector<3x16xi8>
    %y1 = vector.shape_cast %y0 : vector<3x16xi8> to vector<3x4x4xi8>
    %x2 = arith.extsi %x1 : vector<6x3x4xi8> to vector<6x3x4xi32>
    %y2 = arith.extsi %y1 : vector<3x4x4xi8> to vector<3x4x4xi32>
    %f = vector.contract #dot %x2, %y2, %e : vector<6x3x4xi32>, vector<3x4x4xi32> into vector<6x4xi32>
    vector.transfer_write %f, %c[%c0, %c0] {in_bounds = [true, true]} : vector<6x4xi32>, memref<6x4xi32>
    return
  }

  // 28 rows are two tiles of 14, which may be read from two places.

  // CHECK-LABEL: func.func @even
  // CHECK-SAME: %[[P0:[a-z0-9]+]]: memref<14x32xbf16, strided<[64, 1]>>, %[[P1:[a-z0-9]+]]: memref<14x32xbf16, strided<[64, 1]>>, %[[PB:[a-z0-9]+]]
  // CHECK: %[[A0:.*]] = amx.tile_load %[[P0]][%c0, %c0] : {{.*}} into !amx.tile<14x32xbf16>
  // CHECK: %[[B:.*]] = amx.tile_load %[[PB]][%c0, %c0]
  // CHECK: amx.tile_mulf %[[A0]], %[[B]]
  // CHECK: %[[A1:.*]] = amx.tile_load %[[P1]][%c0, %c0] : {{.*}} into !amx.tile<14x32xbf16>
  // CHECK: amx.tile_mulf %[[A1]], %[[B]]
  // CHECK: amx.tile_store %{{.*}}[%c14, %c0]
  func.func @even(%p0: memref<14x32xbf16, strided<[64, 1]>>, %p1: memref<14x32xbf16, strided<[64, 1]>>, %pb: memref<16x32xbf16>, %c: memref<28x16xf32>) {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %none = arith.constant dense<0.0> : vector<28x32xbf16>
    %zeros = arith.constant dense<0.0> : vector<28x16xf32>
    %r0 = vector.transfer_read %p0[%c0, %c0], %p {in_bounds = [true, true]} : memref<14x32xbf16, strided<[64, 1]>>, vector<14x32xbf16>
    %r1 = vector.transfer_read %p1[%c0, %c0], %p {in_bounds = [true, true]} : memref<14x32xbf16, strided<[64, 1]>>, vector<14x32xbf16>
    %h = vector.insert_strided_slice %r0, %none {offsets = [0, 0], strides = [1, 1]} : vector<14x32xbf16> into vector<28x32xbf16>
    %a0 = vector.insert_strided_slice %r1, %h {offsets = [14, 0], strides = [1, 1]} : vector<14x32xbf16> into vector<28x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<28x32xbf16> to vector<28x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<28x16x2xbf16> to vector<28x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %d = vector.contract #dot %a2, %b2, %zeros : vector<28x16x2xf32>, vector<16x16x2xf32> into vector<28x16xf32>
    vector.transfer_write %d, %c[%c0, %c0] {in_bounds = [true, true]} : vector<28x16xf32>, memref<28x16xf32>
    return
  }

  // Nested loops carry tiles. What C starts from depends on the first step and on whether the tile is full, and full
  // tiles never pass the buffer; partial ones do, row by row under the masks that they had.

  // CHECK-LABEL: func.func @split
  // CHECK-SAME: %[[PA:[a-z0-9]+]]: memref<32x512xf16>, %[[PB:[a-z0-9]+]]: memref<256x32xf16>, %[[C:[a-z0-9]+]]: memref<?x?xf32>
  // CHECK: %[[BUFFER:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x16xf32>
  // CHECK: %[[INIT:.*]]:2 = scf.if %{{.*}} -> (!amx.tile<16x16xf32>, !amx.tile<16x16xf32>)
  // CHECK-COUNT-2: amx.tile_zero
  // CHECK: scf.if
  // CHECK-COUNT-2: amx.tile_load %[[C]]
  // CHECK: else
  // CHECK: scf.for %[[ROW:.*]] = %c0 to %c32 step %c1 {
  // CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %[[ROW]]
  // CHECK: %[[PART:.*]] = vector.transfer_read %[[C]][%[[AT]], %{{.*}}], %{{[a-z0-9_]+}} : memref<?x?xf32>, vector<1x16xf32>
  // CHECK: vector.transfer_write %[[PART]], %[[BUFFER]][%[[ROW]], %c0]
  // CHECK-COUNT-2: amx.tile_load %[[BUFFER]]
  // CHECK: %[[R:.*]]:2 = scf.for {{.*}} -> (!amx.tile<16x16xf32>, !amx.tile<16x16xf32>)
  // CHECK: scf.for {{.*}} -> (!amx.tile<16x16xf32>, !amx.tile<16x16xf32>)
  // CHECK-COUNT-2: amx.tile_mulf
  // CHECK: scf.if
  // CHECK-COUNT-2: amx.tile_store %[[C]]
  // CHECK: else
  // CHECK-COUNT-2: amx.tile_store %[[BUFFER]]
  // CHECK: scf.for %[[ROW:.*]] = %c0 to %c32 step %c1 {
  // CHECK: %[[PART:.*]] = vector.transfer_read %[[BUFFER]][%[[ROW]], %c0]
  // CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %[[ROW]]
  // CHECK: vector.transfer_write %[[PART]], %[[C]][%[[AT]], %{{[a-z0-9]+}}] : vector<1x16xf32>, memref<?x?xf32>
  // CHECK-NOT: vector<32x16
  // CHECK: return
  func.func @split(%pa: memref<32x512xf16>, %pb: memref<256x32xf16>, %c: memref<?x?xf32>, %i: index, %j: index, %first: i1, %full: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %p = arith.constant 0.0 : f16
    %q = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<32x16xf32>
    %init = scf.if %first -> vector<32x16xf32> {
      scf.yield %zeros : vector<32x16xf32>
    } else {
      %old = scf.if %full -> vector<32x16xf32> {
        %whole = vector.transfer_read %c[%i, %j], %q {in_bounds = [true, true]} : memref<?x?xf32>, vector<32x16xf32>
        scf.yield %whole : vector<32x16xf32>
      } else {
        %part = vector.transfer_read %c[%i, %j], %q : memref<?x?xf32>, vector<32x16xf32>
        scf.yield %part : vector<32x16xf32>
      }
      scf.yield %old : vector<32x16xf32>
    }
    %r = scf.for %ko = %c0 to %c512 step %c128 iter_args(%outer = %init) -> (vector<32x16xf32>) {
      %s = scf.for %ki = %c0 to %c128 step %c32 iter_args(%acc = %outer) -> (vector<32x16xf32>) {
        %k = arith.addi %ko, %ki : index
        %kf = arith.shrui %k, %c1 : index
        %a0 = vector.transfer_read %pa[%c0, %k], %p {in_bounds = [true, true]} : memref<32x512xf16>, vector<32x32xf16>
        %a1 = vector.shape_cast %a0 : vector<32x32xf16> to vector<32x16x2xf16>
        %b0 = vector.transfer_read %pb[%kf, %c0], %p {in_bounds = [true, true]} : memref<256x32xf16>, vector<16x32xf16>
        %b1 = vector.shape_cast %b0 : vector<16x32xf16> to vector<16x16x2xf16>
        %a2 = arith.extf %a1 : vector<32x16x2xf16> to vector<32x16x2xf32>
        %b2 = arith.extf %b1 : vector<16x16x2xf16> to vector<16x16x2xf32>
        %d = vector.contract #dot %a2, %b2, %acc : vector<32x16x2xf32>, vector<16x16x2xf32> into vector<32x16xf32>
        scf.yield %d : vector<32x16xf32>
      }
      scf.yield %s : vector<32x16xf32>
    }
    scf.if %full {
      vector.transfer_write %r, %c[%i, %j] {in_bounds = [true, true]} : vector<32x16xf32>, memref<?x?xf32>
    } else {
      vector.transfer_write %r, %c[%i, %j] : vector<32x16xf32>, memref<?x?xf32>
    }
    return
  }

  // Other uses get a vector through the buffer, and so does what comes from elsewhere; a loop carries what else it did.

  // CHECK-LABEL: func.func @other
  // CHECK-SAME: %[[IN:[a-z0-9]+]]: vector<16x16xi32>
  // CHECK: %[[BUFFER:.*]] = memref.alloca()
  // CHECK: vector.transfer_write %[[IN]], %[[BUFFER]]
  // CHECK: %[[T:.*]] = amx.tile_load %[[BUFFER]]
  // CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %[[T]], %{{.*}} = %c0) -> (!amx.tile<16x16xi32>, index)
  // CHECK: amx.tile_store %[[BUFFER]][%c0, %c0], %[[R]]#0
  // CHECK: %[[V:.*]] = vector.transfer_read %[[BUFFER]]
  // CHECK: %[[W:.*]] = arith.addi %[[V]], %[[V]]
  // CHECK: return %[[W]], %[[R]]#1
  func.func @other(%in: vector<16x16xi32>, %pa: memref<16x512xi8>, %pb: memref<128x64xi8>) -> (vector<16x16xi32>, index) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %c512 = arith.constant 512 : index
    %p = arith.constant 0 : i8
    %r, %n = scf.for %k = %c0 to %c512 step %c64 iter_args(%acc = %in, %count = %c0) -> (vector<16x16xi32>, index) {
      %kf = arith.divui %k, %c4 : index
      %a0 = vector.transfer_read %pa[%c0, %k], %p {in_bounds = [true, true]} : memref<16x512xi8>, vector<16x64xi8>
      %a1 = vector.shape_cast %a0 : vector<16x64xi8> to vector<16x16x4xi8>
      %b0 = vector.transfer_read %pb[%kf, %c0], %p {in_bounds = [true, true]} : memref<128x64xi8>, vector<16x64xi8>
      %b1 = vector.shape_cast %b0 : vector<16x64xi8> to vector<16x16x4xi8>
      %a2 = arith.extsi %a1 : vector<16x16x4xi8> to vector<16x16x4xi32>
      %b2 = arith.extsi %b1 : vector<16x16x4xi8> to vector<16x16x4xi32>
      %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
      %next = arith.addi %count, %k : index
      scf.yield %d, %next : vector<16x16xi32>, index
    }
    %w = arith.addi %r, %r : vector<16x16xi32>
    return %w, %n : vector<16x16xi32>, index
  }

  // Contractions that are not in dot form, or of other types, stay.

  // CHECK-LABEL: func.func @left_alone
  // CHECK-COUNT-2: vector.contract
  // CHECK-NOT: amx
  // CHECK: return
  func.func @left_alone(%a: vector<16x16x2xi16>, %b: vector<16x16x2xi16>, %x: vector<16x32xf32>, %y: vector<32x16xf32>, %c: vector<16x16xi32>, %z: vector<16x16xf32>) -> (vector<16x16xi32>, vector<16x16xf32>) {
    %a2 = arith.extsi %a : vector<16x16x2xi16> to vector<16x16x2xi32>
    %b2 = arith.extsi %b : vector<16x16x2xi16> to vector<16x16x2xi32>
    %d = vector.contract #dot %a2, %b2, %c : vector<16x16x2xi32>, vector<16x16x2xi32> into vector<16x16xi32>
    %e = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %x, %y, %z : vector<16x32xf32>, vector<32x16xf32> into vector<16x16xf32>
    return %d, %e : vector<16x16xi32>, vector<16x16xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}
