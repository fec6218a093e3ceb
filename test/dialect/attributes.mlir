// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s

// CHECK: #tilewright.target<name = "x86-64-v3", triple = "x86_64-unknown-linux-gnu", features = "+avx2,+fma,-sse4a", tune_cpu = "haswell", vector_bits = 256, prefer_vector_width = 256>
module attributes {tilewright.target = #tilewright.target<
    name = "x86-64-v3", triple = "x86_64-unknown-linux-gnu", features = "+avx2,+fma,-sse4a", tune_cpu = "haswell",
    vector_bits = 256, prefer_vector_width = 256>} {

  // What is open is not printed.
  // CHECK-LABEL: func.func @defaults
  // CHECK-SAME: #tilewright.target<name = "sme", triple = "aarch64-linux-gnu">
  func.func @defaults() attributes {tilewright.target = #tilewright.target<name = "sme", triple = "aarch64-linux-gnu">} {
    return
  }

  // CHECK-LABEL: func.func @schedules
  func.func @schedules() {
    // CHECK: #tilewright.schedule<strategy = "packed">
    %0 = arith.constant {tilewright.schedule = #tilewright.schedule<strategy = "packed">} 0 : index
    // CHECK: #tilewright.schedule<strategy = "packed", parameters = {blocks = [4, 8], mr = 6 : i64, prefetch = true, tail = "mask"}, source = "a/packed.py:41">
    %1 = arith.constant {tilewright.schedule = #tilewright.schedule<
        strategy = "packed", parameters = {blocks = [4, 8], mr = 6 : i64, prefetch = true, tail = "mask"},
        source = "a/packed.py:41">} 0 : index
    return
  }
}
