// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --split-input-file | FileCheck %s

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
module attributes {transform.with_named_sequence} {
  // Four passes over each row: the largest number and the sum stay in registers, and exp takes the place of what it is of.
  // Of 139 columns 128 are read by four vectors at once, and the last eleven are masked.
  // CHECK-LABEL: func.func @softmax
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x139xf32>, %[[C:[a-z0-9]+]]: tensor<?x139xbf16>
  // CHECK: %[[ROWS:.*]] = tensor.dim
  // CHECK: %[[LOOP:.*]]:2 = scf.for %[[R:[a-z0-9]+]] = %c0 to %[[ROWS]] step %c1 iter_args(%[[S:.*]] = %[[X]], %[[D:.*]] = %[[C]])
  // CHECK: scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
  // CHECK-COUNT-4: arith.maximumf {{.*}} : vector<16xf32>
  // CHECK: scf.yield
  // CHECK: %[[LEFT:.*]] = vector.transfer_read %[[S]][%[[R]], %{{.*}}], %{{[^ ]*}} : tensor<?x139xf32>, vector<16xf32>
  // CHECK: arith.select %{{.*}}, %[[LEFT]], %{{.*}} : vector<16xi1>, vector<16xf32>
  // CHECK: %[[MOST:.*]] = vector.extract %{{[0-9]+}}[0]
  // CHECK: scf.for
  // CHECK: %[[ALL:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
  // CHECK: arith.subf %{{.*}}, %[[ALL]]
  // CHECK: math.exp {{.*}} : vector<16xf32>
  // CHECK: vector.transfer_write {{.*}} : vector<16xf32>, tensor<?x139xf32>
  // CHECK: vector.transfer_write {{.*}}, %{{.*}}[%[[R]], %{{[a-z0-9]+}}] : vector<16xf32>, tensor<?x139xf32>
  // CHECK: scf.for
  // CHECK-COUNT-4: arith.addf {{.*}} : vector<16xf32>
  // CHECK: arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
  // CHECK: return %[[LOOP]]#1
  func.func @softmax(%x: tensor<?x139xf32>, %c: tensor<?x139xbf16>, %e: tensor<?xf32>) -> tensor<?x139xbf16> {
    %least = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %low = linalg.fill ins(%least : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %none = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x139xf32>) outs(%low : tensor<?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.maximumf %b, %a : f32
      linalg.yield %0 : f32
    } -> tensor<?xf32>
    %p = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<?xf32>) outs(%x : tensor<?x139xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.subf %b, %a : f32
      %1 = math.exp %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x139xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<?x139xf32>) outs(%none : tensor<?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %b, %a : f32
      linalg.yield %0 : f32
    } -> tensor<?xf32>
    %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<?x139xf32>, tensor<?xf32>) outs(%c : tensor<?x139xbf16>) {
    ^bb0(%a: f32, %b: f32, %former: bf16):
      %0 = arith.divf %a, %b : f32
      %1 = arith.truncf %0 : f32 to bf16
      linalg.yield %1 : bf16
    } -> tensor<?x139xbf16>
    return %r : tensor<?x139xbf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %f = transform.structured.match ops{["func.return"]} in %root : (!transform.any_op) -> !transform.any_op
    %r = transform.get_producer_of_operand %f[0] : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_rows %r lanes 16 : !transform.any_op
    transform.yield
  }
}

// -----

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
module attributes {transform.with_named_sequence} {
  // What a reduction gives goes where it belongs, whatever was there before.
  // CHECK-LABEL: func.func @sum
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x64xi32>, %[[C:[a-z0-9]+]]: tensor<8xi32>
  // CHECK-NOT: linalg
  // CHECK: scf.for %[[R:[a-z0-9]+]] = %c0 to %c8 step %c1 iter_args(%[[D:.*]] = %[[C]])
  // CHECK-NOT: tensor.extract
  // CHECK-NOT: arith.select
  // CHECK: %[[SUM:.*]] = vector.extract %{{[0-9]+}}[0] : i32
  // CHECK: tensor.insert %[[SUM]] into %[[D]][%[[R]]]
  func.func @sum(%x: tensor<8x64xi32>, %c: tensor<8xi32>) -> tensor<8xi32> {
    %zero = arith.constant 0 : i32
    %none = linalg.fill ins(%zero : i32) outs(%c : tensor<8xi32>) -> tensor<8xi32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x64xi32>) outs(%none : tensor<8xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %b, %a : i32
      linalg.yield %0 : i32
    } -> tensor<8xi32>
    return %s : tensor<8xi32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %r = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_rows %r lanes 16 : !transform.any_op
    transform.yield
  }
}
