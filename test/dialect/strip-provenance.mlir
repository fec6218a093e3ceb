// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --tilewright-strip-provenance | FileCheck %s
// RUN: tilewright-opt %s --tilewright-strip-provenance=target=true | FileCheck %s --check-prefix=BOTH
// RUN: sed s/packed.py:1/other.py:2/ %s | tilewright-opt --tilewright-strip-provenance -o %t.other
// RUN: tilewright-opt %s --tilewright-strip-provenance | diff - %t.other

// CHECK: module attributes {tilewright.target =
// CHECK-NOT: tilewright.schedule
// CHECK: keep = "me"
// BOTH-NOT: tilewright
module attributes {
    tilewright.target = #tilewright.target<name = "t", triple = "x86_64">,
    tilewright.schedule = #tilewright.schedule<strategy = "packed", source = "packed.py:1">} {
  func.func @f() -> index {
    %0 = arith.constant {keep = "me", tilewright.schedule = #tilewright.schedule<strategy = "packed">} 0 : index
    return %0 : index
  }
}
