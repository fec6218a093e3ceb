// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --allow-unregistered-dialect --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // Two rows of the source are interleaved as they are written; the tile read is one row of pairs.
  // CHECK-LABEL: func.func @interleaved
  // CHECK-SAME: %[[SOURCE:[a-z0-9]+]]: memref<8x32xbf16>
  // CHECK: %[[PANEL:.*]] = memref.alloc() : memref<3x4x64xbf16>
  // CHECK: scf.for %[[K:[a-z0-9]+]] =
  // CHECK: %[[EVEN:.*]] = vector.transfer_read %[[SOURCE]][%[[K]], %{{.*}}]
  // CHECK: %[[ODD:.*]] = vector.transfer_read %[[SOURCE]][%{{.*}}, %{{.*}}]
  // CHECK: %[[PAIRS:.*]] = vector.interleave %[[EVEN]], %[[ODD]] : vector<32xbf16> -> vector<64xbf16>
  // CHECK: %[[GROUP:.*]] = affine.apply #{{.*}}(%[[K]])
  // CHECK: vector.transfer_write %[[PAIRS]], %[[PANEL]][%{{.*}}, %[[GROUP]], %{{.*}}]
  // CHECK: scf.for
  // CHECK: %[[READ:.*]] = vector.transfer_read %[[PANEL]]{{.*}} vector<1x64xbf16>
  // CHECK-NEXT: vector.shape_cast %[[READ]] : vector<1x64xbf16> to vector<1x32x2xbf16>
  // CHECK-NOT: vector.transpose
  func.func @interleaved(%source: memref<8x32xbf16>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %p = arith.constant 0.0 : bf16
    %panel = memref.alloc() : memref<3x8x32xbf16>
    scf.for %k = %c0 to %c8 step %c2 {
      %v = vector.transfer_read %source[%k, %c0], %p {in_bounds = [true, true]} : memref<8x32xbf16>, vector<2x32xbf16>
      vector.transfer_write %v, %panel[%c1, %k, %c0] {in_bounds = [true, true]} : vector<2x32xbf16>, memref<3x8x32xbf16>
    }
    scf.for %k = %c0 to %c8 step %c2 {
      %t = vector.transfer_read %panel[%c1, %k, %c0], %p {in_bounds = [true, true]} : memref<3x8x32xbf16>, vector<2x32xbf16>
      %g = vector.shape_cast %t : vector<2x32xbf16> to vector<1x2x32xbf16>
      %r = vector.transpose %g, [0, 2, 1] : vector<1x2x32xbf16> to vector<1x32x2xbf16>
      "test.use"(%r) : (vector<1x32x2xbf16>) -> ()
    }
    return
  }

  // Loops may start from one of two multiples.
  // CHECK-LABEL: func.func @from_either
  // CHECK: memref.alloc() : memref<4x64xbf16>
  // CHECK-NOT: vector.transpose
  // CHECK-LABEL: func.func @from_an_odd_one
  // CHECK: memref.alloc() : memref<8x32xbf16>
  // CHECK: vector.transpose
  func.func @from_either(%v: vector<2x32xbf16>, %all: i1) {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %p = arith.constant 0.0 : bf16
    %panel = memref.alloc() : memref<8x32xbf16>
    %first = arith.select %all, %c0, %c4 : index
    scf.for %k = %first to %c8 step %c2 {
      vector.transfer_write %v, %panel[%k, %c0] {in_bounds = [true, true]} : vector<2x32xbf16>, memref<8x32xbf16>
    }
    %t = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<8x32xbf16>, vector<2x32xbf16>
    %g = vector.shape_cast %t : vector<2x32xbf16> to vector<1x2x32xbf16>
    %r = vector.transpose %g, [0, 2, 1] : vector<1x2x32xbf16> to vector<1x32x2xbf16>
    "test.use"(%r) : (vector<1x32x2xbf16>) -> ()
    return
  }
  func.func @from_an_odd_one(%v: vector<2x32xbf16>, %all: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c7 = arith.constant 7 : index
    %p = arith.constant 0.0 : bf16
    %panel = memref.alloc() : memref<8x32xbf16>
    %first = arith.select %all, %c0, %c1 : index
    scf.for %k = %first to %c7 step %c2 {
      vector.transfer_write %v, %panel[%k, %c0] {in_bounds = [true, true]} : vector<2x32xbf16>, memref<8x32xbf16>
    }
    %t = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<8x32xbf16>, vector<2x32xbf16>
    %g = vector.shape_cast %t : vector<2x32xbf16> to vector<1x2x32xbf16>
    %r = vector.transpose %g, [0, 2, 1] : vector<1x2x32xbf16> to vector<1x32x2xbf16>
    "test.use"(%r) : (vector<1x32x2xbf16>) -> ()
    return
  }

  // A tile that starts inside of a group cannot be read as groups.
  // CHECK-LABEL: func.func @inside_a_group
  // CHECK: memref.alloc() : memref<8x32xbf16>
  // CHECK: vector.transpose
  func.func @inside_a_group(%v: vector<2x32xbf16>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = arith.constant 0.0 : bf16
    %panel = memref.alloc() : memref<8x32xbf16>
    vector.transfer_write %v, %panel[%c0, %c0] {in_bounds = [true, true]} : vector<2x32xbf16>, memref<8x32xbf16>
    %t = vector.transfer_read %panel[%c1, %c0], %p {in_bounds = [true, true]} : memref<8x32xbf16>, vector<2x32xbf16>
    %g = vector.shape_cast %t : vector<2x32xbf16> to vector<1x2x32xbf16>
    %r = vector.transpose %g, [0, 2, 1] : vector<1x2x32xbf16> to vector<1x32x2xbf16>
    "test.use"(%r) : (vector<1x32x2xbf16>) -> ()
    return
  }

  // What every read is widened to, and whose bits are inverted, is stored so.
  // CHECK-LABEL: func.func @widened
  // CHECK-SAME: %[[V:[a-z0-9]+]]: vector<32xf16>
  // CHECK: %[[PANEL:.*]] = memref.alloc() : memref<4x32xf32>
  // CHECK: %[[WIDE:.*]] = arith.extf %[[V]] : vector<32xf16> to vector<32xf32>
  // CHECK: vector.transfer_write %[[WIDE]], %[[PANEL]]
  // CHECK: vector.transfer_read %[[PANEL]]{{.*}} vector<1x32xf32>
  // CHECK: vector.transfer_read %[[PANEL]]{{.*}} vector<4x1xf32>
  // CHECK-NOT: arith.extf
  func.func @widened(%v: vector<32xf16>) {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : f16
    %panel = memref.alloc() : memref<4x32xf16>
    vector.transfer_write %v, %panel[%c0, %c0] {in_bounds = [true]} : vector<32xf16>, memref<4x32xf16>
    %a = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x32xf16>, vector<1x32xf16>
    %b = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x32xf16>, vector<4x1xf16>
    %wide_a = arith.extf %a : vector<1x32xf16> to vector<1x32xf32>
    %wide_b = arith.extf %b : vector<4x1xf16> to vector<4x1xf32>
    "test.use"(%wide_a, %wide_b) : (vector<1x32xf32>, vector<4x1xf32>) -> ()
    return
  }

  // One read is widened and one is not: there is nothing that all do.
  // CHECK-LABEL: func.func @not_all_widened
  // CHECK: memref.alloc() : memref<4x32xf16>
  // CHECK: arith.extf
  func.func @not_all_widened(%v: vector<32xf16>) {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : f16
    %panel = memref.alloc() : memref<4x32xf16>
    vector.transfer_write %v, %panel[%c0, %c0] {in_bounds = [true]} : vector<32xf16>, memref<4x32xf16>
    %a = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x32xf16>, vector<1x32xf16>
    %b = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x32xf16>, vector<4x1xf16>
    %wide = arith.extf %a : vector<1x32xf16> to vector<1x32xf32>
    "test.use"(%wide, %b) : (vector<1x32xf32>, vector<4x1xf16>) -> ()
    return
  }

  // A buffer that leaves the function is somebody else's as well.
  // CHECK-LABEL: func.func @escapes
  // CHECK: memref.alloc() : memref<4x32xf16>
  func.func @escapes(%v: vector<32xf16>) -> memref<4x32xf16> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : f16
    %panel = memref.alloc() : memref<4x32xf16>
    vector.transfer_write %v, %panel[%c0, %c0] {in_bounds = [true]} : vector<32xf16>, memref<4x32xf16>
    %a = vector.transfer_read %panel[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x32xf16>, vector<1x32xf16>
    %wide = arith.extf %a : vector<1x32xf16> to vector<1x32xf32>
    "test.use"(%wide) : (vector<1x32xf32>) -> ()
    return %panel : memref<4x32xf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.convert_panels %f depth 2 storage f32 : !transform.any_op
    transform.yield
  }
}
