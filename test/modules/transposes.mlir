// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// Each way in which an operand can be stored transposed, and a result that is.
#mk = affine_map<(m, n, k) -> (m, k)>
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @transposes(%at: tensor<19x11xf32>, %b: tensor<19x23xf32>, %c: tensor<23x11xf32>, %d: tensor<11x9xf32>)
    -> (tensor<9x11xf32>, tensor<11x23xf32>) {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<11x23xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<11x23xf32>) -> tensor<11x23xf32>
  %ab = linalg.matmul indexing_maps = [#km, #kn, #mn] ins(%at, %b : tensor<19x11xf32>, tensor<19x23xf32>) outs(%f1 : tensor<11x23xf32>) -> tensor<11x23xf32>
  %e2 = tensor.empty() : tensor<11x11xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<11x11xf32>) -> tensor<11x11xf32>
  %ct = tensor.empty() : tensor<11x23xf32>
  %turned = linalg.transpose ins(%c : tensor<23x11xf32>) outs(%ct : tensor<11x23xf32>) permutation = [1, 0]
  %abc = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%ab, %turned : tensor<11x23xf32>, tensor<11x23xf32>) outs(%f2 : tensor<11x11xf32>) -> tensor<11x11xf32>
  %e3 = tensor.empty() : tensor<11x9xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<11x9xf32>) -> tensor<11x9xf32>
  %abcd = linalg.matmul ins(%abc, %d : tensor<11x11xf32>, tensor<11x9xf32>) outs(%f3 : tensor<11x9xf32>) -> tensor<11x9xf32>
  %e4 = tensor.empty() : tensor<9x11xf32>
  %t = linalg.transpose ins(%abcd : tensor<11x9xf32>) outs(%e4 : tensor<9x11xf32>) permutation = [1, 0]
  return %t, %ab : tensor<9x11xf32>, tensor<11x23xf32>
}

// No transposition is left: each is one of how an operand of a product is stored.
// CHECK-LABEL: func.func @transposes(
// CHECK:         linalg.generic {{.*}}product = 0
// CHECK:         linalg.generic {{.*}}product = 1
// CHECK:         linalg.generic {{.*}}product = 2
// CHECK:         return
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<11x19xf32> {{{[^}]*}}strided<[1, ?]>
