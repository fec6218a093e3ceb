// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --tilewright-debug-scopes --mlir-print-debuginfo | FileCheck %s
// RUN: tilewright-opt %s --tilewright-debug-scopes=directives=true --mlir-print-debuginfo | FileCheck %s --check-prefix=DIRECTIVES

// DIRECTIVES: emissionKind = DebugDirectivesOnly

// The place of a step goes before others, loops are inlined functions, and the column numbers the loops around a line.
// CHECK: llvm.add %{{.*}} loc(#[[FIRST:.*]])
// CHECK: llvm.mul %{{.*}} loc(#[[SECOND:.*]])
// CHECK: llvm.return
llvm.func @f(%a: i64) -> i64 {
  %b = llvm.add %a, %a : i64 loc(callsite(fused["step"("own.py":7:0), "matmul"("other.py":1:1)] at "loop ir"("own.py":5:0)))
  %c = llvm.mul %a, %b : i64 loc(fused["matmul", "step"("own.py":7:0)])
  llvm.return %c : i64 loc(unknown)
} loc("own.py":1:0)
// CHECK-DAG: #[[FILE:di_file[0-9]*]] = #llvm.di_file<"own.py" in "">
// CHECK-DAG: #[[LOOP:di_subprogram[0-9]*]] = #llvm.di_subprogram<{{.*}}name = "loop ir", file = #[[FILE]], line = 5
// CHECK-DAG: #[[F:di_subprogram[0-9]*]] = #llvm.di_subprogram<{{.*}}name = "f", file = #[[FILE]], line = 1
// CHECK-DAG: #[[SEVEN:.*]] = loc("own.py":7:1)
// CHECK-DAG: #[[AGAIN:.*]] = loc("own.py":7:2)
// CHECK-DAG: #[[INSIDE:.*]] = loc(fused<#[[LOOP]]>[#[[SEVEN]]])
// CHECK-DAG: #[[SECOND]] = loc(fused<#[[F]]>[#[[AGAIN]]])
// CHECK-DAG: #[[FIRST]] = loc(callsite(#[[INSIDE]] at #{{.*}}))
