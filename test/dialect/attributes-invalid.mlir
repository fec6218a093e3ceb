// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{name: expected the name of a target, got ""}}
module attributes {tilewright.target = #tilewright.target<name = "", triple = "x86_64-linux-gnu">} {}

// -----

// expected-error @+1 {{triple: expected an LLVM target triple with a known architecture, got "x68"}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x68">} {}

// -----

// expected-error @+1 {{features: expected +NAME or -NAME, got "avx2"}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", features = "avx2">} {}

// -----

// expected-error @+1 {{features: expected +NAME or -NAME, got ""}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", features = "+avx2,,+fma">} {}

// -----

// expected-error @+1 {{features: expected +NAME or -NAME, got " +fma"}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", features = "+avx2, +fma">} {}

// -----

// expected-error @+1 {{features: "avx2" comes more than once}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", features = "+avx2,-avx2">} {}

// -----

// expected-error @+1 {{vector_bits: expected 0 or a power of two from 64, got 96}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", vector_bits = 96>} {}

// -----

// expected-error @+1 {{prefer_vector_width: expected 0 or a power of two from 64, got -256}}
module attributes {tilewright.target = #tilewright.target<name = "t", triple = "x86_64", prefer_vector_width = -256>} {}

// -----

// expected-error @+1 {{strategy: expected the name of a strategy, got ""}}
module attributes {tilewright.schedule = #tilewright.schedule<strategy = "">} {}

// -----

// expected-error @+1 {{parameters: mr is negative: -6 : i64}}
module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s", parameters = {mr = -6 : i64}>} {}

// -----

// expected-error @+1 {{parameters: a must be an integer, a boolean, a string or an array of them, and is 1.000000e+00 : f64}}
module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s", parameters = {a = [1.0]}>} {}

// -----

// expected-error @+1 {{source: expected FILE:LINE with a line from 1, got "packed.py"}}
module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s", source = "packed.py">} {}

// -----

// expected-error @+1 {{source: expected FILE:LINE with a line from 1, got "packed.py:0"}}
module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s", source = "packed.py:0">} {}

// -----

// expected-error @+1 {{'tilewright.target' must be a #tilewright.target, and is "host"}}
module attributes {tilewright.target = "host"} {}

// -----

func.func @f() {
  // expected-error @+1 {{cannot carry 'tilewright.target': only a module or a function is compiled for a target}}
  %0 = arith.constant {tilewright.target = #tilewright.target<name = "t", triple = "x86_64">} 0 : index
  return
}

// -----

// expected-error @+1 {{'tilewright.schedule' must be a #tilewright.schedule, and is 1 : i64}}
module attributes {tilewright.schedule = 1} {}

// -----

// expected-error @+1 {{has the unknown attribute 'tilewright.shedule'; the dialect knows 'tilewright.target', 'tilewright.schedule', 'tilewright.sharing', 'tilewright.pipeline', 'tilewright.product', 'tilewright.softmax', 'tilewright.convolution', 'tilewright.patches', 'tilewright.prefetch', 'tilewright.unroll', 'tilewright.ahead', 'tilewright.rows_ahead', 'tilewright.past_l1', 'tilewright.images', 'tilewright.across', 'tilewright.kernel'}}
module attributes {tilewright.shedule = 1} {}
