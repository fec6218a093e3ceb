// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Memrefs: rows far apart, a buffer of its own, a slice that is written, and one that is added to.
func.func @buffers(%a: memref<12x20xf32, strided<[?, 1], offset: ?>>, %b: memref<20x16xf32>, %c: memref<12x16xf32, strided<[32, 1]>>,
                   %d: memref<24x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %tmp = memref.alloc() : memref<12x16xf32>
  linalg.fill ins(%zero : f32) outs(%tmp : memref<12x16xf32>)
  linalg.matmul ins(%a, %b : memref<12x20xf32, strided<[?, 1], offset: ?>>, memref<20x16xf32>) outs(%tmp : memref<12x16xf32>)
  linalg.exp ins(%tmp : memref<12x16xf32>) outs(%c : memref<12x16xf32, strided<[32, 1]>>)
  %half = memref.subview %d[8, 0] [12, 16] [1, 1] : memref<24x16xf32> to memref<12x16xf32, strided<[16, 1], offset: 128>>
  linalg.matmul ins(%a, %b : memref<12x20xf32, strided<[?, 1], offset: ?>>, memref<20x16xf32>) outs(%half : memref<12x16xf32, strided<[16, 1], offset: 128>>)
  memref.dealloc %tmp : memref<12x16xf32>
  return
}

// Writes make values, and what is written last is returned through the arguments.
// CHECK-LABEL: func.func @buffers(
// CHECK-SAME:    %[[C:arg2]]: tensor<12x16xf32> {{{[^}]*}}bufferization.writable = true}
// CHECK-SAME:    %[[D:arg3]]: tensor<24x16xf32> {{{[^}]*}}bufferization.writable = true}
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK:         tensor.insert_slice
// CHECK-NOT:     memref.
// CHECK:         return
