// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a clause says is a number or a parameter, such as a knob's.
// RUN: tilewright-opt %s --transform-interpreter --split-input-file | FileCheck %s

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @threads
// CHECK: tilewright.sharing = #tilewright.threads<rows = 8, columns = 4>
func.func @threads(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<64x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 32)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<64x32xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [64, 16] [1, 1] : tensor<?x?xf32> to tensor<64x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 32] [1, 1] : tensor<?x?xf32> to tensor<16x32xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<64x16xf32>, vector<64x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x32xf32>, vector<16x32xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<64x16xf32>, vector<16x32xf32> into vector<64x32xf32>
      scf.yield %t : vector<64x32xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [64, 32] [1, 1] : tensor<?x?xf32> to tensor<64x32xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<64x32xf32>, tensor<64x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [64, 32] [1, 1] : tensor<64x32xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %rows = transform.tune.knob<"rows"> = 8 : i64 from options = [4, 8] -> !transform.param<i64>
    // CHECK: transform.tilewright.share_among_threads %{{.*}} rows %{{.*}} columns 4 : !transform.any_op
    transform.tilewright.share_among_threads %blocks rows %rows columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @warps
// CHECK: tilewright.pipeline = #tilewright.pipeline<stages = 4>
// CHECK: tilewright.sharing = #tilewright.warps<rows = 32, columns = 16, instructions = "mma_sync">
func.func @warps(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<64x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 32)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<64x32xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [64, 16] [1, 1] : tensor<?x?xf32> to tensor<64x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 32] [1, 1] : tensor<?x?xf32> to tensor<16x32xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<64x16xf32>, vector<64x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x32xf32>, vector<16x32xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<64x16xf32>, vector<16x32xf32> into vector<64x32xf32>
      scf.yield %t : vector<64x32xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [64, 32] [1, 1] : tensor<?x?xf32> to tensor<64x32xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<64x32xf32>, tensor<64x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [64, 32] [1, 1] : tensor<64x32xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %wm = transform.param.constant 32 : i64 -> !transform.param<i64>
    %wn = transform.param.constant 16 : i64 -> !transform.param<i64>
    %stages = transform.param.constant 4 : i64 -> !transform.param<i64>
    transform.tilewright.share_among_warps %blocks rows %wm columns %wn instructions "mma_sync" : !transform.any_op
    // CHECK: transform.tilewright.pipeline %{{.*}} stages %{{.*}} : !transform.any_op
    transform.tilewright.pipeline %over_k stages %stages : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @warp_groups
// CHECK: tilewright.sharing = #tilewright.warp_groups<consumers = 1, split = 2, band = 16>
func.func @warp_groups(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<64x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 32)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<64x32xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [64, 16] [1, 1] : tensor<?x?xf32> to tensor<64x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 32] [1, 1] : tensor<?x?xf32> to tensor<16x32xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<64x16xf32>, vector<64x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x32xf32>, vector<16x32xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<64x16xf32>, vector<16x32xf32> into vector<64x32xf32>
      scf.yield %t : vector<64x32xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [64, 32] [1, 1] : tensor<?x?xf32> to tensor<64x32xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<64x32xf32>, tensor<64x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [64, 32] [1, 1] : tensor<64x32xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %consumers = transform.param.constant 1 : i64 -> !transform.param<i64>
    %no = transform.param.constant 0 : i64 -> !transform.param<i64>
    %split = transform.param.constant 2 : i64 -> !transform.param<i64>
    %band = transform.param.constant 16 : i64 -> !transform.param<i64>
    %promote = transform.param.constant 0 : i64 -> !transform.param<i64>
    // CHECK: transform.tilewright.specialize_warp_groups %{{.*}} consumers %{{.*}} pingpong %{{.*}} cluster 1 split %{{.*}} streamed %{{.*}} band %{{.*}} promote %{{.*}} : !transform.any_op
    transform.tilewright.specialize_warp_groups %blocks consumers %consumers pingpong %no cluster 1 split %split streamed %no band %band promote %promote : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @swapped
// CHECK: tilewright.sharing = #tilewright.warp_groups<consumers = 1, swapped = true>
func.func @swapped(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x64xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 32)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 64)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<32x64xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [32, 16] [1, 1] : tensor<?x?xf32> to tensor<32x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 64] [1, 1] : tensor<?x?xf32> to tensor<16x64xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<32x16xf32>, vector<32x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x64xf32>, vector<16x64xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<32x16xf32>, vector<16x64xf32> into vector<32x64xf32>
      scf.yield %t : vector<32x64xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [32, 64] [1, 1] : tensor<?x?xf32> to tensor<32x64xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<32x64xf32>, tensor<32x64xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [32, 64] [1, 1] : tensor<32x64xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %yes = transform.param.constant 1 : i64 -> !transform.param<i64>
    transform.tilewright.specialize_warp_groups %blocks consumers 1 swapped %yes : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @tensor_memory
// CHECK: tilewright.sharing = #tilewright.tensor_memory<buffers = 2, cluster = 2, pair = true>
func.func @tensor_memory(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<128x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 128)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 32)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<128x32xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [128, 16] [1, 1] : tensor<?x?xf32> to tensor<128x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 32] [1, 1] : tensor<?x?xf32> to tensor<16x32xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<128x16xf32>, vector<128x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x32xf32>, vector<16x32xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<128x16xf32>, vector<16x32xf32> into vector<128x32xf32>
      scf.yield %t : vector<128x32xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [128, 32] [1, 1] : tensor<?x?xf32> to tensor<128x32xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<128x32xf32>, tensor<128x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [128, 32] [1, 1] : tensor<128x32xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %buffers = transform.param.constant 2 : i64 -> !transform.param<i64>
    %yes = transform.param.constant 1 : i64 -> !transform.param<i64>
    transform.tilewright.specialize_warps %blocks buffers %buffers cluster 2 pair %yes : !transform.any_op
    transform.yield
  }
}
