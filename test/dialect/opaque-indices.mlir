// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --tilewright-opaque-indices | FileCheck %s
// RUN: tilewright-opt %s --tilewright-opaque-indices --canonicalize | FileCheck %s --check-prefix=FOLDED

// A computed index is cast once, where it is computed; a constant is left as it is.
// CHECK-LABEL: func @tile(
// CHECK-SAME: %[[C:.*]]: tensor<?x8xf32>, %[[ROWS:.*]]: index, %[[AT:.*]]: index
// CHECK-DAG: %[[ROWS2:.*]] = builtin.unrealized_conversion_cast %[[ROWS]] : index to index
// CHECK-DAG: %[[AT2:.*]] = builtin.unrealized_conversion_cast %[[AT]] : index to index
// CHECK: extract_slice %[[C]][%[[AT2]], 0] [%[[ROWS2]], 8]
// CHECK: transfer_write %{{.*}}, %{{.*}}[%c0, %c0]
// CHECK: insert_slice %{{.*}} into %[[C]][%[[AT2]], 0] [%[[ROWS2]], 8]
// FOLDED-NOT: unrealized_conversion_cast
func.func @tile(%c: tensor<?x8xf32>, %rows: index, %at: index, %v: vector<4x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %tile = tensor.extract_slice %c[%at, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %written = vector.transfer_write %v, %tile[%c0, %c0] : vector<4x8xf32>, tensor<?x8xf32>
  %result = tensor.insert_slice %written into %c[%at, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> into tensor<?x8xf32>
  return %result : tensor<?x8xf32>
}
