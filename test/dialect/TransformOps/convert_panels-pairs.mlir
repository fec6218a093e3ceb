// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --allow-unregistered-dialect --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // Groups of eight elements of two rows alternate in the panel.
  // CHECK-LABEL: func.func @pairs
  // CHECK: %[[PANEL:.*]] = memref.alloc() : memref<2x128xi8>
  // CHECK: %[[EVEN:.*]] = vector.bitcast %{{.*}} : vector<16xi8> to vector<2xi64>
  // CHECK: %[[ODD:.*]] = vector.bitcast %{{.*}} : vector<16xi8> to vector<2xi64>
  // CHECK: %[[BOTH:.*]] = vector.interleave %[[EVEN]], %[[ODD]]
  // CHECK: %[[BYTES:.*]] = vector.bitcast %[[BOTH]] : vector<4xi64> to vector<32xi8>
  // CHECK: vector.transfer_write %[[BYTES]], %[[PANEL]]
  // CHECK: %[[TILE:.*]] = vector.transfer_read %[[PANEL]]{{.*}} vector<2x32xi8>
  // CHECK: %[[SPLIT:.*]] = vector.shape_cast %[[TILE]] : vector<2x32xi8> to vector<2x2x2x8xi8>
  // CHECK: vector.transpose %[[SPLIT]], [0, 2, 1, 3]
  func.func @pairs(%source: memref<4x64xi8>) {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %p = arith.constant 0 : i8
    %panel = memref.alloc() : memref<4x64xi8>
    scf.for %i = %c0 to %c4 step %c2 {
      scf.for %k = %c0 to %c64 step %c16 {
        %v = vector.transfer_read %source[%i, %k], %p {in_bounds = [true, true]} : memref<4x64xi8>, vector<2x16xi8>
        vector.transfer_write %v, %panel[%i, %k] {in_bounds = [true, true]} : vector<2x16xi8>, memref<4x64xi8>
      }
    }
    scf.for %k = %c0 to %c64 step %c16 {
      %t = vector.transfer_read %panel[%c0, %k], %p {in_bounds = [true, true]} : memref<4x64xi8>, vector<4x16xi8>
      %g = vector.shape_cast %t : vector<4x16xi8> to vector<4x2x8xi8>
      "test.use"(%g) : (vector<4x2x8xi8>) -> ()
    }
    return
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.convert_panels %f depth 8 pairs : !transform.any_op
    transform.yield
  }
}
