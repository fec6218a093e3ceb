// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s --check-prefix=TEXT
// RUN: tilewright-opt %s --transform-interpreter | FileCheck %s

// What is a parameter comes first; values keep their kinds.
// TEXT: transform.tilewright.decide online_softmax(kc = %{{.*}}, merged = %{{.*}}, mr = 6, nr = 4, vectorize = "queries") on %{{.*}} : !transform.any_op
// TEXT: transform.tilewright.decide scaled_sums(kc = 8, mr = 1, nc = 64, nr = 64) on %{{.*}} : !transform.any_op

// A parameter of 1 is true; what has a default may be left out.
// CHECK-LABEL: func.func @matmul
// CHECK: linalg.matmul {tilewright.product = #tilewright.scaled_sums<mr = 1, nr = 64, nc = 64, kc = 8>}
// CHECK: linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 96, mr = 6, nr = 4, merged = true>}
module attributes {transform.with_named_sequence} {
  func.func @matmul(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = linalg.softmax dimension(1) ins(%0 : tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %softmax = transform.structured.match ops{["linalg.softmax"]} in %root : (!transform.any_op) -> !transform.any_op
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %kc = transform.tune.knob<"kc"> = 96 : i64 from options = [48, 96] -> !transform.param<i64>
    %merged = transform.tune.knob<"merged"> = 1 : i64 from options = [0, 1] -> !transform.param<i64>
    transform.tilewright.decide online_softmax(mr = 6, kc = %kc, nr = 4, merged = %merged, vectorize = "queries") on %softmax : !transform.any_op
    transform.tilewright.decide scaled_sums(mr = 1, nr = 64, nc = 64, kc = 8) on %matmul : !transform.any_op
    // No payload, no work.
    %none = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.decide prefetch(operands = "all") on %none : !transform.any_op
    transform.yield
  }
}
