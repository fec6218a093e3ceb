// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

func.func @f() {
  // expected-error @+1 {{columns: expected a number above zero, got 0}}
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.threads<rows = 4, columns = 0>}
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{instructions: expected "mma_sync" or "matrix_cores", got "fma"}}
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warps<rows = 4, columns = 4, instructions = "fma">}
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{pingpong: expected 2 consumers, got 3}}
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warp_groups<consumers = 3, pingpong = true>}
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{promote: expected a number of steps, or 0 for never, got -1}}
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warp_groups<consumers = 2, promote = -1>}
  return
}

// -----

// expected-error @+1 {{stages: expected a number above zero, got 0}}
module attributes {tilewright.pipeline = #tilewright.pipeline<stages = 0>} {}

// -----

// expected-error @+1 {{cannot carry 'tilewright.pipeline': only an scf.for is a pipeline}}
module attributes {tilewright.pipeline = #tilewright.pipeline<stages = 2>} {}

// -----

// expected-error @+1 {{cannot carry 'tilewright.sharing': only an scf.forall over blocks is shared}}
module attributes {tilewright.sharing = #tilewright.threads<rows = 4, columns = 4>} {}

// -----

func.func @f() {
  // expected-error @+1 {{'tilewright.sharing' must be a #tilewright.threads, a #tilewright.warps, a #tilewright.warp_groups or a #tilewright.tensor_memory, and is #tilewright.pipeline<stages = 2>}}
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.pipeline<stages = 2>}
  return
}

// -----

func.func @f(%a: memref<8x8xf32>) {
  // expected-error @+1 {{instructions: expected "threads", "mma_sync" or "matrix_cores", got "wgmma"}}
  linalg.softmax {tilewright.softmax = #tilewright.shared_softmax<bm = 16, kc = 32, rows = 4, threads = 64, instructions = "wgmma">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @f(%a: memref<8x8xf32>) {
  // expected-error @+1 {{multiplied: expected "f32", "bf16" or "f16", got "i8"}}
  linalg.softmax {tilewright.softmax = #tilewright.shared_softmax<bm = 16, kc = 32, rows = 4, threads = 64, instructions = "threads", multiplied = "i8">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @f(%a: memref<8x8xf32>) {
  // expected-error @+1 {{kc: expected a number above zero, got 0}}
  linalg.softmax {tilewright.softmax = #tilewright.shared_softmax<bm = 16, kc = 0, rows = 4, threads = 64, instructions = "threads">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @f(%a: memref<8x8xf32>) {
  // expected-error @+1 {{split: expected a number above zero, got 0}}
  linalg.softmax {tilewright.softmax = #tilewright.warp_group_softmax<bm = 64, kc = 32, stages = 1, multiplied = "f16", split = 0>} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}

// -----

func.func @f(%a: memref<8x8xf32>) {
  // expected-error @+1 {{multiplied: expected "bf16" or "f16", got "f32"}}
  linalg.softmax {tilewright.softmax = #tilewright.warp_group_softmax<bm = 64, kc = 32, stages = 1, multiplied = "f32">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}
