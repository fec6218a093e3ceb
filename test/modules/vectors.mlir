// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --emit payload -o - | FileCheck %s
// A matrix by a vector, a vector by a vector, slices, and functions that only the C library has.
func.func @vectors(%a: tensor<21x13xf32>, %x: tensor<13xf32>) -> (tensor<21xf32>, tensor<f32>, tensor<4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<21xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<21xf32>) -> tensor<21xf32>
  %y = linalg.matvec ins(%a, %x : tensor<21x13xf32>, tensor<13xf32>) outs(%f : tensor<21xf32>) -> tensor<21xf32>
  %s = tensor.empty() : tensor<f32>
  %t = linalg.fill ins(%zero : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %d = linalg.dot ins(%x, %x : tensor<13xf32>, tensor<13xf32>) outs(%t : tensor<f32>) -> tensor<f32>
  %part = tensor.extract_slice %a[3, 2] [4, 5] [1, 1] : tensor<21x13xf32> to tensor<4x5xf32>
  %sin = math.sin %part : tensor<4x5xf32>
  return %y, %d, %sin : tensor<21xf32>, tensor<f32>, tensor<4x5xf32>
}

// CHECK-LABEL: func.func @vectors(
// CHECK-DAG:     linalg.generic {{.*}}product = 0
// CHECK-DAG:     linalg.generic {{.*}}product = 1
// CHECK-DAG:     math.sin
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<21x13xf32>
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<1x13xf32>
