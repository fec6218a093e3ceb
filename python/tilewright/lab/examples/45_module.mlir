// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: A module: a layer and its bias, fused
// group: operators
// operator: module
func.func @layer(%x: tensor<64x256xf32>, %w: tensor<256x128xf32>, %bias: tensor<128xf32>) -> tensor<64x128xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x128xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
  %product = linalg.matmul ins(%x, %w : tensor<64x256xf32>, tensor<256x128xf32>) outs(%start : tensor<64x128xf32>) -> tensor<64x128xf32>
  %wide = linalg.broadcast ins(%bias : tensor<128xf32>) outs(%empty : tensor<64x128xf32>) dimensions = [0]
  %sum = linalg.add ins(%product, %wide : tensor<64x128xf32>, tensor<64x128xf32>) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
  %result = linalg.tanh ins(%sum : tensor<64x128xf32>) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %result : tensor<64x128xf32>
}
