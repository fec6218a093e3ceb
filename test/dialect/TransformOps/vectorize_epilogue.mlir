// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file | FileCheck %s

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>
#column = affine_map<(m, n) -> (m)>
#none = affine_map<(m, n) -> ()>
module attributes {transform.with_named_sequence} {
  // The padded tile is read whole; what is broadcast is read along the dimension that it has; everything else may leave
  // its bounds.
  // CHECK-DAG: #[[ROW:[a-z0-9]+]] = affine_map<(d0) -> (0, d0)>
  // CHECK-DAG: #[[COLUMN:[a-z0-9]+]] = affine_map<(d0) -> (d0, 0)>
  // CHECK-LABEL: func.func @everything
  // CHECK-SAME: %[[TILE:[a-z0-9]+]]: tensor<6x32xf32>, %[[BIAS:[a-z0-9]+]]: tensor<?xf32>, %[[SCALE:[a-z0-9]+]]: tensor<?xf32>
  // CHECK: %[[V:.*]] = vector.transfer_read %[[TILE]]{{.*}}in_bounds = [true, true]
  // CHECK: vector.transfer_read %[[BIAS]]{{.*}}in_bounds = [true, false], permutation_map = #[[ROW]]
  // CHECK: vector.transfer_read %[[SCALE]]{{.*}}in_bounds = [false, true], permutation_map = #[[COLUMN]]
  // CHECK: tensor.extract
  // CHECK: arith.addf %[[V]], %{{.*}} : vector<6x32xf32>
  // CHECK: math.exp %{{.*}} : vector<6x32xf32>
  // CHECK: arith.truncf %{{.*}} : vector<6x32xf32> to vector<6x32xbf16>
  // CHECK: vector.transfer_write %{{.*}} : vector<6x32xbf16>, tensor<?x?xbf16>
  // CHECK-NEXT: return
  func.func @everything(%tile: tensor<6x32xf32>, %bias: tensor<?xf32>, %scale: tensor<?xf32>, %offset: tensor<f32>,
                        %c: tensor<?x?xbf16>, %m: index, %n: index) -> tensor<?x?xbf16> {
    %part = tensor.extract_slice %tile[0, 0] [%m, %n] [1, 1] : tensor<6x32xf32> to tensor<?x?xf32>
    %r = linalg.generic {indexing_maps = [#id, #row, #column, #none, #id], iterator_types = ["parallel", "parallel"]}
      ins(%part, %bias, %scale, %offset : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>)
      outs(%c : tensor<?x?xbf16>) {
    ^bb0(%x: f32, %b: f32, %s: f32, %o: f32, %former: bf16):
      %1 = arith.addf %x, %b : f32
      %2 = arith.mulf %1, %s : f32
      %3 = arith.addf %2, %o : f32
      %4 = math.exp %3 : f32
      %5 = arith.truncf %4 : f32 to bf16
      linalg.yield %5 : bf16
    } -> tensor<?x?xbf16>
    return %r : tensor<?x?xbf16>
  }

  // Another tile of sums is read whole as the first one is; a matrix of the result's size is not.
  // CHECK-LABEL: func.func @two_tiles
  // CHECK-SAME: %[[TILE:[a-z0-9]+]]: tensor<6x32xf32>, %[[OTHER:[a-z0-9]+]]: tensor<6x32xf32>, %[[X:[a-z0-9]+]]: tensor<?x?xf32>
  // CHECK: vector.transfer_read %[[TILE]]{{.*}}in_bounds = [true, true]
  // CHECK: vector.transfer_read %[[OTHER]]{{.*}}in_bounds = [true, true]
  // CHECK: vector.transfer_read %[[X]][%c0, %c0], %{{[^ ]*}} : tensor<?x?xf32>, vector<6x32xf32>
  func.func @two_tiles(%tile: tensor<6x32xf32>, %other: tensor<6x32xf32>, %x: tensor<?x?xf32>, %c: tensor<?x?xf32>,
                       %m: index, %n: index) -> tensor<?x?xf32> {
    %first = tensor.extract_slice %tile[0, 0] [%m, %n] [1, 1] : tensor<6x32xf32> to tensor<?x?xf32>
    %second = tensor.extract_slice %other[0, 0] [%m, %n] [1, 1] : tensor<6x32xf32> to tensor<?x?xf32>
    %r = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%first, %second, %x : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32, %d: f32, %former: f32):
      %1 = arith.mulf %a, %b : f32
      %2 = arith.addf %1, %d : f32
      linalg.yield %2 : f32
    } -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %w = transform.tilewright.vectorize_epilogue %g : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// With a shape, the tile is no larger than that, and nothing is taken to be padded.

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>
module attributes {transform.with_named_sequence} {
  // CHECK-LABEL: func.func @sums_in_scratch
  // CHECK-SAME: %[[SUMS:[a-z0-9]+]]: tensor<1x?xf32>
  // CHECK: vector.transfer_read %[[SUMS]]{{.*}}in_bounds = [true, false]{{.*}}vector<1x16xf32>
  // CHECK: vector.transfer_write %{{.*}}in_bounds = [true, false]{{.*}}vector<1x16xbf16>, tensor<1x?xbf16>
  func.func @sums_in_scratch(%sums: tensor<1x?xf32>, %bias: tensor<?xf32>, %c: tensor<1x?xbf16>) -> tensor<1x?xbf16> {
    %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sums, %bias : tensor<1x?xf32>, tensor<?xf32>) outs(%c : tensor<1x?xbf16>) {
    ^bb0(%x: f32, %b: f32, %former: bf16):
      %1 = arith.addf %x, %b : f32
      %2 = arith.truncf %1 : f32 to bf16
      linalg.yield %2 : bf16
    } -> tensor<1x?xbf16>
    return %r : tensor<1x?xbf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %w = transform.tilewright.vectorize_epilogue %g shape [1, 16] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// Where the result is the transpose, the tile is transposed in registers, and all else is done in the order of the result.
#id = affine_map<(m, n) -> (m, n)>
#first = affine_map<(m, n) -> (m)>
#swapped = affine_map<(m, n) -> (n, m)>
module attributes {transform.with_named_sequence} {
  // CHECK-DAG: #[[ROW:[a-z0-9]+]] = affine_map<(d0) -> (0, d0)>
  // CHECK-LABEL: func.func @transposed
  // CHECK-SAME: %[[TILE:[a-z0-9]+]]: tensor<32x16xf32>, %[[BIAS:[a-z0-9]+]]: tensor<?xf32>
  // CHECK: %[[V:.*]] = vector.transfer_read %[[TILE]]{{.*}}in_bounds = [true, true]{{.*}} vector<32x16xf32>
  // CHECK-COUNT-128: vector.shuffle
  // CHECK: vector.transfer_read %[[BIAS]]{{.*}}in_bounds = [true, false], permutation_map = #[[ROW]]{{.*}} vector<16x32xf32>
  // CHECK: arith.addf {{.*}} : vector<16x32xf32>
  // CHECK: vector.transfer_write %{{.*}} : vector<16x32xf32>, tensor<?x?xf32>
  func.func @transposed(%tile: tensor<32x16xf32>, %bias: tensor<?xf32>, %c: tensor<?x?xf32>,
                        %m: index, %n: index) -> tensor<?x?xf32> {
    %part = tensor.extract_slice %tile[0, 0] [%m, %n] [1, 1] : tensor<32x16xf32> to tensor<?x?xf32>
    %r = linalg.generic {indexing_maps = [#id, #first, #swapped], iterator_types = ["parallel", "parallel"]}
      ins(%part, %bias : tensor<?x?xf32>, tensor<?xf32>) outs(%c : tensor<?x?xf32>) {
    ^bb0(%x: f32, %b: f32, %former: f32):
      %1 = arith.addf %x, %b : f32
      linalg.yield %1 : f32
    } -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %g = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %w = transform.tilewright.vectorize_epilogue %g : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
