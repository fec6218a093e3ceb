// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

func.func @size(%a: memref<8x8xf32>) {
  // expected-error @+1 {{kc: expected a number above zero, got -1}}
  linalg.copy {tilewright.product = #tilewright.outer_products<mc = 8, nc = 8, kc = -1>} ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{vectorize: expected "queries" or "head", got "keys"}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, vectorize = "keys">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{multiplied: expected "f32" or "bf16", got "f16"}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, multiplied = "f16">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{instructions: expected "vectors" or "tiles", got "threads"}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, instructions = "threads">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{instructions: tiles multiply bf16, with queries in the lanes of vectors; got multiplied = "f32", vectorize = "queries"}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 32, mr = 32, instructions = "tiles">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{mr, nr, columns: expected 1 with vectorize = "head", got 1, 4, 1}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, nr = 4, vectorize = "head">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{mr: expected a number above zero, got 0}}
  linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 16, mr = 0>} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @softmax(%a: memref<8x8xf32>) {
  // expected-error @+1 {{cannot carry 'tilewright.softmax': only a linalg.softmax is computed online}}
  linalg.copy {tilewright.softmax = #tilewright.online_softmax<kc = 16>} ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

// expected-error @+1 {{operands: expected "none" or "all", got "some"}}
func.func @operands() attributes {tilewright.prefetch = #tilewright.prefetch<operands = "some">} { return }

// -----

// expected-error @+1 {{'tilewright.unroll' must be an i64 of at least 0, and is -1 : i64}}
func.func @unrolled() attributes {tilewright.unroll = -1 : i64} { return }

// -----

// expected-error @+1 {{'tilewright.across' must be an i64 of at least 0, and is 2 : i32}}
func.func @across() attributes {tilewright.across = 2 : i32} { return }

// -----

// expected-error @+1 {{cannot carry 'tilewright.ahead': only a function prefetches its operands}}
module attributes {tilewright.ahead = 6 : i64} {}

// -----

// expected-error @+1 {{cannot carry 'tilewright.rows_ahead': only a function prefetches its operands}}
module attributes {tilewright.rows_ahead = 4 : i64} {}

// -----

// expected-error @+1 {{threads: expected a number above zero, got 0}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 0>} {}

// -----

// expected-error @+1 {{share: expected "loops" or "calls", got "rows"}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 2, share = "rows">} {}

// -----

// expected-error @+1 {{extents: expected least, most and divisor of "m", got array<i64: 8, 1, 1>}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 1, extents = {m = array<i64: 8, 1, 1>}>} {}

// -----

// expected-error @+1 {{extents: expected m, n or k, got "q"}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 1, extents = {q = array<i64: 1, 8, 1>}>} {}

// -----

// expected-error @+1 {{cases: expected a number and tests, got 1 : i64}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 1, cases = [1]>} {}

// -----

// expected-error @+1 {{cases: expected a test of extents with least, most and multiple, got {extents = "mq", least = 0 : i64, most = 8 : i64, multiple = 1 : i64}}}
module attributes {tilewright.kernel = #tilewright.kernel<threads = 1, cases = [{number = 0, tests =
    [{extents = "mq", least = 0, most = 8, multiple = 1}]}]>} {}

// -----

// expected-error @+1 {{'tilewright.kernel' must be a #tilewright.kernel, and is 1 : i64}}
module attributes {tilewright.kernel = 1} {}

// -----

func.func @channels(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x4xf32>, %y: tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> {
  // expected-error @+1 {{channels: expected a number above zero, got 0}}
  %0 = linalg.depthwise_conv_2d_nhwc_hwc {tilewright.convolution = #tilewright.depthwise<channels = 0, pixels = 7>}
    ins(%x, %w : tensor<1x8x8x4xf32>, tensor<3x3x4xf32>) outs(%y : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %0 : tensor<1x6x6x4xf32>
}

// -----

// expected-error @+1 {{cannot carry 'tilewright.convolution': only a linalg op is a convolution}}
func.func @place() attributes {tilewright.convolution = #tilewright.depthwise<channels = 16, pixels = 7>} { return }

// -----

// expected-error @+1 {{pixels: expected "rows" or "columns", got "planes"}}
func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = 0, pixels = "planes", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, 0]>} { return }

// -----

// expected-error @+1 {{filter: expected 2 numbers of at least 1, got array<i64: 3>}}
func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = 0, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, 0]>} { return }

// -----

// expected-error @+1 {{before: expected 2 numbers of at least 0, got array<i64: 0, -1>}}
func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = 0, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, -1]>} { return }

// -----

// expected-error @+1 {{operand: expected the number of an argument, got -1}}
func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = -1, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 4, stride = [1, 1], dilation = [1, 1], before = [0, 0]>} { return }

// -----

// expected-error @+1 {{channels: expected a number above zero, got 0}}
func.func @patches(%matrix: memref<36x36xf32>) attributes {tilewright.patches = #tilewright.patches<operand = 0, pixels = "rows", images = [1, 8, 8, 4], pitches = [256, 32, 4, 1], extents = [8, 8], results = [6, 6], filter = [3, 3], channels = 0, stride = [1, 1], dilation = [1, 1], before = [0, 0]>} { return }
