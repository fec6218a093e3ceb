// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// A B C, with nothing between.
func.func @chain(%a: tensor<31x37xf64>, %b: tensor<37x41xf64>, %c: tensor<41x29xf64>) -> tensor<31x29xf64> {
  %zero = arith.constant 0.0 : f64
  %e1 = tensor.empty() : tensor<31x41xf64>
  %f1 = linalg.fill ins(%zero : f64) outs(%e1 : tensor<31x41xf64>) -> tensor<31x41xf64>
  %ab = linalg.matmul ins(%a, %b : tensor<31x37xf64>, tensor<37x41xf64>) outs(%f1 : tensor<31x41xf64>) -> tensor<31x41xf64>
  %e2 = tensor.empty() : tensor<31x29xf64>
  %f2 = linalg.fill ins(%zero : f64) outs(%e2 : tensor<31x29xf64>) -> tensor<31x29xf64>
  %abc = linalg.matmul ins(%ab, %c : tensor<31x41xf64>, tensor<41x29xf64>) outs(%f2 : tensor<31x29xf64>) -> tensor<31x29xf64>
  return %abc : tensor<31x29xf64>
}

// CHECK-LABEL: func.func @chain(
// CHECK:         %[[AB:.*]] = linalg.generic {{.*}}product = 0
// CHECK:         linalg.generic {{.*}}ins(%[[AB]], {{.*}}product = 1
// CHECK-LABEL: func.func @matmul(
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<31x37xf64>, tensor<37x41xf64>)
