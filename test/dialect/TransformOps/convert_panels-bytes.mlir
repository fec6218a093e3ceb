// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --allow-unregistered-dialect --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // Four registers of rows become four registers of groups by two shuffles each, of bytes and then of words, and each is written by itself.
  // CHECK-LABEL: func.func @whole_registers
  // CHECK: %[[PANEL:.*]] = memref.alloc() : memref<2x256xi8>
  // CHECK-COUNT-2: vector.shuffle {{.*}} : vector<64xi8>, vector<64xi8>
  // CHECK-COUNT-2: vector.shuffle {{.*}} : vector<32xi16>, vector<32xi16>
  // CHECK-COUNT-2: vector.shuffle {{.*}} : vector<64xi8>, vector<64xi8>
  // CHECK-COUNT-2: vector.shuffle {{.*}} : vector<32xi16>, vector<32xi16>
  // CHECK-NOT: vector.shuffle
  // CHECK-COUNT-4: vector.transfer_write {{.*}}, %[[PANEL]]{{.*}} : vector<64xi8>
  // CHECK-NOT: vector.transfer_write
  func.func @whole_registers(%source: memref<8x64xi8>) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %p = arith.constant 0 : i8
    %panel = memref.alloc() : memref<8x64xi8>
    scf.for %k = %c0 to %c8 step %c4 {
      %v = vector.transfer_read %source[%k, %c0], %p {in_bounds = [true, true]} : memref<8x64xi8>, vector<4x64xi8>
      vector.transfer_write %v, %panel[%k, %c0] {in_bounds = [true, true]} : vector<4x64xi8>, memref<8x64xi8>
    }
    scf.for %k = %c0 to %c8 step %c4 {
      %t = vector.transfer_read %panel[%k, %c0], %p {in_bounds = [true, true]} : memref<8x64xi8>, vector<4x64xi8>
      %g = vector.shape_cast %t : vector<4x64xi8> to vector<1x4x64xi8>
      %r = vector.transpose %g, [0, 2, 1] : vector<1x4x64xi8> to vector<1x64x4xi8>
      "test.use"(%r) : (vector<1x64x4xi8>) -> ()
    }
    return
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.convert_panels %f depth 4 : !transform.any_op
    transform.yield
  }
}
