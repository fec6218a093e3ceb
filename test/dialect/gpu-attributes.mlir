// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s

// What is usual is not printed.
// CHECK-LABEL: func.func @decisions
func.func @decisions(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: tilewright.pipeline = #tilewright.pipeline<stages = 4>
  scf.for %k = %c0 to %n step %c1 {} {tilewright.pipeline = #tilewright.pipeline<stages = 4>}
  // CHECK: tilewright.sharing = #tilewright.threads<rows = 4, columns = 8>
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.threads<rows = 4, columns = 8>}
  // CHECK: tilewright.sharing = #tilewright.warps<rows = 64, columns = 32, instructions = "mma_sync">
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warps<rows = 64, columns = 32, instructions = "mma_sync">}
  // CHECK: tilewright.sharing = #tilewright.warp_groups<consumers = 1>
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warp_groups<consumers = 1, band = 8>}
  // CHECK: tilewright.sharing = #tilewright.warp_groups<consumers = 2, streamed = true, fetched = true>
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warp_groups<consumers = 2, streamed = true, fetched = true>}
  // CHECK: tilewright.sharing = #tilewright.warp_groups<consumers = 2, pingpong = true, cluster = 2, beside = 2, band = 4, promote = 1>
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.warp_groups<consumers = 2, pingpong = true, cluster = 2, beside = 2, band = 4,
                                                                          promote = 1>}
  // CHECK: tilewright.sharing = #tilewright.tensor_memory<buffers = 2, swapped = true>
  scf.forall (%i) in (2) {} {tilewright.sharing = #tilewright.tensor_memory<buffers = 2, cluster = 1, swapped = true, band = 8>}
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%a: memref<8x8xf32>) {
  // CHECK: tilewright.softmax = #tilewright.shared_softmax<bm = 16, kc = 32, rows = 4, threads = 64, instructions = "threads">
  linalg.softmax {tilewright.softmax = #tilewright.shared_softmax<bm = 16, kc = 32, rows = 4, threads = 64, instructions = "threads",
                                                                  multiplied = "f32">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  // CHECK: tilewright.softmax = #tilewright.warp_group_softmax<bm = 128, kc = 176, stages = 2, overlap = true, pingpong = true, multiplied = "bf16">
  linalg.softmax {tilewright.softmax = #tilewright.warp_group_softmax<bm = 128, kc = 176, stages = 2, overlap = true, pingpong = true,
                                                                      multiplied = "bf16">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  // CHECK: tilewright.softmax = #tilewright.warp_group_softmax<bm = 64, kc = 32, stages = 1, multiplied = "f16">
  linalg.softmax {tilewright.softmax = #tilewright.warp_group_softmax<bm = 64, kc = 32, stages = 1, overlap = false,
                                                                      multiplied = "f16">} dimension(1) ins(%a : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  return
}
