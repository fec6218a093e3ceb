// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix product as MLIR has it: one function with one linalg.matmul. The fill makes it C = A·B; without it, it
// would be C += A·B. Compile it to an object with a C function `project`, and write its header, with
//
//   tilewright compile examples/03_mlir_file.mlir -o project.o --header project.h
//
// and look at any stage on the way with, for instance,
//
//   tilewright compile examples/03_mlir_file.mlir --emit scheduled
//
func.func @project(%x: memref<96x64xf32, strided<[?, 1]>>, %w: memref<64x128xf32>, %y: memref<96x128xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<96x128xf32>)
  linalg.matmul ins(%x, %w : memref<96x64xf32, strided<[?, 1]>>, memref<64x128xf32>) outs(%y : memref<96x128xf32>)
  return
}
