// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright compile %s --target x86-64-v4 --emit payload -o - | FileCheck %s
// What is elementwise before a product that is packed is done while it is packed: here a shift and relu, and weights of bytes
// that become floats, stored transposed. A copy that only transposes says how an operand lies.
func.func @prologues(%x: tensor<40x48xbf16>, %shift: tensor<48xbf16>, %w: tensor<64x48xi8>, %scale: tensor<64xf32>,
                     %v: tensor<20x64xf32>) -> tensor<40x20xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0.0 : bf16
  %ea = tensor.empty() : tensor<40x48xbf16>
  %a = linalg.generic {
    indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m, k)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %shift : tensor<40x48xbf16>, tensor<48xbf16>) outs(%ea : tensor<40x48xbf16>) {
  ^bb0(%p: bf16, %q: bf16, %o: bf16):
    %s = arith.addf %p, %q : bf16
    %r = arith.maximumf %s, %low : bf16
    linalg.yield %r : bf16
  } -> tensor<40x48xbf16>
  %eb = tensor.empty() : tensor<64x48xbf16>
  %b = linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>, affine_map<(n, k) -> (n, k)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%w, %scale : tensor<64x48xi8>, tensor<64xf32>) outs(%eb : tensor<64x48xbf16>) {
  ^bb0(%p: i8, %q: f32, %o: bf16):
    %f = arith.sitofp %p : i8 to f32
    %s = arith.mulf %f, %q : f32
    %t = arith.truncf %s : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<64x48xbf16>
  %ec = tensor.empty() : tensor<40x64xf32>
  %clear = linalg.fill ins(%zero : f32) outs(%ec : tensor<40x64xf32>) -> tensor<40x64xf32>
  %c = linalg.contract
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : tensor<40x48xbf16>, tensor<64x48xbf16>) outs(%clear : tensor<40x64xf32>) -> tensor<40x64xf32>
  %ev = tensor.empty() : tensor<64x20xf32>
  %turned = linalg.transpose ins(%v : tensor<20x64xf32>) outs(%ev : tensor<64x20xf32>) permutation = [1, 0]
  %ed = tensor.empty() : tensor<40x20xf32>
  %clear2 = linalg.fill ins(%zero : f32) outs(%ed : tensor<40x20xf32>) -> tensor<40x20xf32>
  %d = linalg.matmul ins(%c, %turned : tensor<40x64xf32>, tensor<64x20xf32>) outs(%clear2 : tensor<40x20xf32>) -> tensor<40x20xf32>
  return %d : tensor<40x20xf32>
}

// CHECK-LABEL: func.func @prologues(
// CHECK-NOT:     arith
// CHECK:         linalg.generic {{.*}}ins(%arg0, %arg2, %arg1, %arg3 : {{.*}}product = 0
// CHECK-NOT:     arith
// CHECK:         linalg.generic {{.*}}ins({{.*}}, %arg4 : {{.*}}product = 1
// CHECK-LABEL: func.func @matmul(
// CHECK:         arith.select
// CHECK:         arith.sitofp
// CHECK:         linalg.matmul
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    tensor<64x20xf32> {{.*}}strided<[1, ?]>
