// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// The head of a residual network: scale and shift of each channel, relu, the mean over positions, and a product.
func.func @residual(%x: tensor<33x20xf32>, %scale: tensor<20xf32>, %shift: tensor<20xf32>, %w: tensor<20x10xf32>) -> tensor<10xf32> {
  %zero = arith.constant 0.0 : f32
  %part = arith.constant 0.03125 : f32
  %empty = tensor.empty() : tensor<33x20xf32>
  %s = linalg.broadcast ins(%scale : tensor<20xf32>) outs(%empty : tensor<33x20xf32>) dimensions = [0]
  %t = linalg.broadcast ins(%shift : tensor<20xf32>) outs(%empty : tensor<33x20xf32>) dimensions = [0]
  %scaled = linalg.mul ins(%x, %s : tensor<33x20xf32>, tensor<33x20xf32>) outs(%empty : tensor<33x20xf32>) -> tensor<33x20xf32>
  %shifted = linalg.add ins(%scaled, %t : tensor<33x20xf32>, tensor<33x20xf32>) outs(%empty : tensor<33x20xf32>) -> tensor<33x20xf32>
  %zeros = arith.constant dense<0.0> : tensor<33x20xf32>
  %relu = arith.maximumf %shifted, %zeros : tensor<33x20xf32>
  %row = tensor.empty() : tensor<20xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<20xf32>) -> tensor<20xf32>
  %sum = linalg.reduce ins(%relu : tensor<33x20xf32>) outs(%start : tensor<20xf32>) dimensions = [0] (%a: f32, %b: f32) {
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  %mean = linalg.map ins(%sum : tensor<20xf32>) outs(%row : tensor<20xf32>) (%a: f32, %o: f32) {
    %c = arith.mulf %a, %part : f32
    linalg.yield %c : f32
  }
  %out = tensor.empty() : tensor<10xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%out : tensor<10xf32>) -> tensor<10xf32>
  %y = linalg.vecmat ins(%mean, %w : tensor<20xf32>, tensor<20x10xf32>) outs(%clear : tensor<10xf32>) -> tensor<10xf32>
  return %y : tensor<10xf32>
}

// Scale, shift and relu are one nest; the mean is another; the row by a matrix is a product.
// CHECK-LABEL: func.func @residual(
// CHECK:         arith.maximumf
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<1x20xf32>
