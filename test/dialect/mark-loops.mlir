// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --tilewright-mark-loops --mlir-print-debuginfo --mlir-use-nameloc-as-prefix | FileCheck %s

// The location of an op in loops is a call site of each loop in the next one; a loop that steps by a size of the schedule has its name.
// CHECK-LABEL: func.func @nest
func.func @nest(%a: memref<?xf32>, %n: index, %x: f32) attributes {tilewright.schedule = #tilewright.schedule<strategy = "own", parameters = {mr = 6 : i64, nr = 64 : i64}>} {
  %zero = arith.constant 0 : index loc("outside":1:0)
  %one = arith.constant 1 : index loc("outside":1:0)
  %six = arith.constant 6 : index loc("outside":1:0)
  scf.for %i = %zero to %n step %six {
    scf.for %k = %zero to %n step %one {
      memref.store %x, %a[%k] : memref<?xf32> loc("op":3:0)
    } loc("inner":2:0)
  } loc("outer":1:0)
  return loc("outside":2:0)
}
// CHECK: memref.store {{.*}} loc(#[[STORE:.*]])
// CHECK: return loc(#[[OUTSIDE:loc[0-9]*]])
// CHECK-DAG: #[[OP:.*]] = loc("op":3:0)
// CHECK-DAG: #[[INNER:.*]] = loc("inner":2:0)
// CHECK-DAG: #[[OUTER:.*]] = loc("outer":1:0)
// CHECK-DAG: #[[OUTSIDE]] = loc("outside":2:0)
// CHECK-DAG: #[[K:.*]] = loc("loop"(#[[INNER]]))
// CHECK-DAG: #[[IR:.*]] = loc("loop ir"(#[[OUTER]]))
// CHECK-DAG: #[[LOOPS:.*]] = loc(callsite(#[[K]] at #[[IR]]))
// CHECK-DAG: #[[STORE]] = loc(callsite(#[[OP]] at #[[LOOPS]]))
