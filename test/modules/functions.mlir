// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Several functions, of which two compute the same product.
module {
  func.func @first(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    return %c : tensor<8x8xf32>
  }
  func.func @second(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8xf32> {
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %row = tensor.empty() : tensor<8xf32>
    %start = linalg.fill ins(%low : f32) outs(%row : tensor<8xf32>) -> tensor<8xf32>
    %m = linalg.reduce ins(%c : tensor<8x8xf32>) outs(%start : tensor<8xf32>) dimensions = [1] (%x: f32, %y: f32) {
      %z = arith.maximumf %x, %y : f32
      linalg.yield %z : f32
    }
    return %m : tensor<8xf32>
  }
}

// One product, which both call.
// CHECK-LABEL: func.func @first(
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK-LABEL: func.func @second(
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         arith.maximumf
// CHECK-LABEL: func.func @matmul(
// CHECK-NOT:   func.func
