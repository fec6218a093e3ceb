// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt --split-input-file %s | tilewright-opt --split-input-file | FileCheck %s

// CHECK: module attributes {tilewright.kernel = #tilewright.kernel<threads = 2>}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 2, extents = {}, cases = []>} {
  // CHECK-LABEL: func.func @decisions
  // CHECK-SAME: tilewright.across = 2 : i64, tilewright.ahead = 0 : i64, tilewright.prefetch = #tilewright.prefetch<operands = "all">, tilewright.unroll = 4 : i64
  func.func @decisions(%a: memref<8x8xf32>, %b: memref<8x8xf32>, %c: memref<8x8xf32>)
      attributes {tilewright.prefetch = #tilewright.prefetch<operands = "all">, tilewright.unroll = 4 : i64, tilewright.ahead = 0 : i64, tilewright.across = 2 : i64} {
    // CHECK: linalg.matmul {tilewright.product = #tilewright.scalable_tiles<mr = 8, nr = 12, mc = 96, nc = 960, kc = 256>}
    linalg.matmul {tilewright.product = #tilewright.scalable_tiles<mr = 8, nr = 12, mc = 96, nc = 960, kc = 256>}
      ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
    // CHECK: linalg.matmul {tilewright.product = #tilewright.outer_products<mc = 96, nc = 960, kc = 256>}
    linalg.matmul {tilewright.product = #tilewright.outer_products<mc = 96, nc = 960, kc = 256>}
      ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
    // CHECK: linalg.matmul {tilewright.product = #tilewright.scaled_sums<mr = 1, nr = 64, nc = 1024, kc = 16>}
    linalg.matmul {tilewright.product = #tilewright.scaled_sums<mr = 1, nr = 64, nc = 1024, kc = 16>}
      ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
    // CHECK: linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, merged = true, vectorize = "head", multiplied = "bf16">}
    linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, mr = 1, merged = true, vectorize = "head", multiplied = "bf16">}
      dimension(1) ins(%a : memref<8x8xf32>) outs(%c : memref<8x8xf32>)
    return
  }
  // CHECK-LABEL: func.func @depthwise
  func.func @depthwise(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x4xf32>, %y: tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> {
    // CHECK: linalg.depthwise_conv_2d_nhwc_hwc {tilewright.convolution = #tilewright.depthwise<channels = 16, pixels = 7>}
    %0 = linalg.depthwise_conv_2d_nhwc_hwc {tilewright.convolution = #tilewright.depthwise<channels = 16, pixels = 7>}
      ins(%x, %w : tensor<1x8x8x4xf32>, tensor<3x3x4xf32>) outs(%y : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
    return %0 : tensor<1x6x6x4xf32>
  }
  // CHECK-LABEL: func.func @patches
  // CHECK-SAME: tilewright.patches = #tilewright.patches<operand = 0, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, 0]>
  func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = 0, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, 0]>} { return }
}

// -----

// CHECK: module attributes {tilewright.kernel = #tilewright.kernel<threads = 2, share = "calls">}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 2, share = "calls", extents = {}, cases = []>} {}

// -----

// CHECK: tests = [{extents = "kn", least = 1 : i64, most = -1 : i64, multiple = 1 : i64}, {extents = "k/m", least = 32 : i64
module attributes {tilewright.kernel = #tilewright.kernel<threads = 1, cases = [{number = 0, tests = [
    {extents = "kn", least = 1, most = -1, multiple = 1}, {extents = "k/m", least = 32, most = -1, multiple = 1}]}]>} {}
