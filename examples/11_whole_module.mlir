// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function with several linalg ops: a layer with bias and relu, and a softmax over its rows. Run it, check it against plain
// loops, and time it with
//
//   tilewright run examples/11_whole_module.mlir
//
// and compile it to a library with a C function `classify`, and write its header, with
//
//   tilewright compile examples/11_whole_module.mlir -o classify.so --header classify.h
//
func.func @classify(%x: tensor<64x256xf32>, %w: tensor<256x100xf32>, %bias: tensor<100xf32>) -> tensor<64x100xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x100xf32>
  %start = linalg.broadcast ins(%bias : tensor<100xf32>) outs(%empty : tensor<64x100xf32>) dimensions = [0]
  %sums = linalg.matmul ins(%x, %w : tensor<64x256xf32>, tensor<256x100xf32>) outs(%start : tensor<64x100xf32>) -> tensor<64x100xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x100xf32>) -> tensor<64x100xf32>
  %relu = linalg.max ins(%sums, %zeros : tensor<64x100xf32>, tensor<64x100xf32>) outs(%empty : tensor<64x100xf32>) -> tensor<64x100xf32>
  %p = linalg.softmax dimension(1) ins(%relu : tensor<64x100xf32>) outs(%empty : tensor<64x100xf32>) -> tensor<64x100xf32>
  return %p : tensor<64x100xf32>
}
