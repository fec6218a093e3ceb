// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Bytes without a sign by bytes with one, scaled by channel, rounded, and clamped to a byte with a sign.
func.func @quantized(%a: tensor<17x40xi8>, %b: tensor<40x24xi8>, %scale: tensor<24xf32>) -> tensor<17x24xi8> {
  %zero = arith.constant 0 : i32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %empty = tensor.empty() : tensor<17x24xi32>
  %clear = linalg.fill ins(%zero : i32) outs(%empty : tensor<17x24xi32>) -> tensor<17x24xi32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%a, %b : tensor<17x40xi8>, tensor<40x24xi8>) outs(%clear : tensor<17x24xi32>) {
  ^bb0(%x: i8, %y: i8, %z: i32):
    %xw = arith.extui %x : i8 to i32
    %yw = arith.extsi %y : i8 to i32
    %p = arith.muli %xw, %yw : i32
    %s = arith.addi %z, %p : i32
    linalg.yield %s : i32
  } -> tensor<17x24xi32>
  %bytes = tensor.empty() : tensor<17x24xi8>
  %q = linalg.generic {
    indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%sums, %scale : tensor<17x24xi32>, tensor<24xf32>) outs(%bytes : tensor<17x24xi8>) {
  ^bb0(%x: i32, %y: f32, %z: i8):
    %f = arith.sitofp %x : i32 to f32
    %s = arith.mulf %f, %y : f32
    %r = math.roundeven %s : f32
    %l = arith.maximumf %r, %low : f32
    %h = arith.minimumf %l, %high : f32
    %i = arith.fptosi %h : f32 to i8
    linalg.yield %i : i8
  } -> tensor<17x24xi8>
  return %q : tensor<17x24xi8>
}

// CHECK-LABEL: func.func @quantized(
// CHECK-COUNT-1: linalg.generic {{.*}}product = 0
// CHECK-NOT:     linalg.generic
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK:         arith.extui
// CHECK:         arith.extsi
// CHECK:         arith.sitofp
// CHECK:         arith.fptosi
