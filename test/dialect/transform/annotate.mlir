// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter | FileCheck %s

// CHECK-LABEL: func.func @matmul
// CHECK-SAME: tilewright.target = #tilewright.target<name = "host", triple = "x86_64-linux-gnu">
// CHECK: linalg.fill
// CHECK-NOT: tilewright.schedule
// CHECK: linalg.matmul {tilewright.schedule = #tilewright.schedule<strategy = "packed", source = "s.py:1">}
module attributes {transform.with_named_sequence} {
  func.func @matmul(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %zero = arith.constant 0.0 : f32
    %0 = linalg.fill ins(%zero : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = linalg.matmul ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.annotate #tilewright.schedule<strategy = "packed", source = "s.py:1"> on %matmul : !transform.any_op
    // The same once more changes nothing, and %matmul is still good.
    transform.tilewright.annotate #tilewright.schedule<strategy = "packed", source = "s.py:1"> on %matmul : !transform.any_op
    %func = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.annotate #tilewright.target<name = "host", triple = "x86_64-linux-gnu"> on %func : !transform.any_op
    // No payload, no work.
    %none = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.annotate #tilewright.schedule<strategy = "none"> on %none : !transform.any_op
    transform.yield
  }
}
