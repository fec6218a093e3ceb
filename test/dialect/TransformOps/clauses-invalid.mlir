// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What parameters say is checked when an op is applied, and the error names the clause; that there is one of a number and a parameter, before.
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %rows = transform.param.constant 0 : i64 -> !transform.param<i64>
    // expected-error @+1 {{rows: expected a number of at least 1, got 0}}
    transform.tilewright.share_among_threads %blocks rows %rows columns 4 : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %columns = transform.param.constant -3 : i64 -> !transform.param<i64>
    // expected-error @+1 {{columns: expected a number of at least 1, got -3}}
    transform.tilewright.share_among_warps %blocks rows 16 columns %columns instructions "mma_sync" : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %swapped = transform.param.constant 2 : i64 -> !transform.param<i64>
    // expected-error @+1 {{swapped: expected 0 or 1, got 2}}
    transform.tilewright.specialize_warp_groups %blocks consumers 1 swapped %swapped : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %yes = transform.param.constant 1 : i64 -> !transform.param<i64>
    // expected-error @+1 {{pingpong: two consumers take turns, whose sums are not split: expected `consumers 2`, and no `split`}}
    transform.tilewright.specialize_warp_groups %blocks consumers 1 pingpong %yes : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %split = transform.param.constant 2 : i64 -> !transform.param<i64>
    // expected-error @+1 {{fetched: a block has boxes of its own for a whole tile: expected no `split`}}
    transform.tilewright.specialize_warp_groups %blocks consumers 1 split %split fetched : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %promote = transform.param.constant -1 : i64 -> !transform.param<i64>
    // expected-error @+1 {{promote: expected a number of at least 0, got -1}}
    transform.tilewright.specialize_warp_groups %blocks consumers 1 promote %promote : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %cluster = transform.param.constant 1 : i64 -> !transform.param<i64>
    // expected-error @+1 {{pair: the two blocks of a cluster multiply together: expected `cluster 2`}}
    transform.tilewright.specialize_warps %blocks buffers 1 cluster %cluster pair : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %split = transform.param.constant 4 : i64 -> !transform.param<i64>
    // expected-error @+1 {{streamed: the steps of tiles are divided otherwise: expected no `split`}}
    transform.tilewright.specialize_warps %blocks buffers 1 split %split streamed : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %stages = transform.param.constant 0 : i64 -> !transform.param<i64>
    // expected-error @+1 {{stages: expected a number of at least 1, got 0}}
    transform.tilewright.pipeline %over_k stages %stages : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %one = transform.param.constant 1 : i64 -> !transform.param<i64>
    %two = transform.param.constant 2 : i64 -> !transform.param<i64>
    %both = transform.merge_handles %one, %two : !transform.param<i64>
    // expected-error @+1 {{stages: expected a number of at least 1, got 2 values}}
    transform.tilewright.pipeline %over_k stages %both : !transform.any_op
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %rows = transform.param.constant 16 : i64 -> !transform.param<i64>
    // expected-error @+1 {{rows: both a number and a parameter: expected one of them}}
    "transform.tilewright.share_among_threads"(%blocks, %rows) <{columns = 4 : i64, rows = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 0>}> : (!transform.any_op, !transform.param<i64>) -> ()
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{stages: expected a number or a parameter}}
    "transform.tilewright.pipeline"(%over_k) : (!transform.any_op) -> ()
    transform.yield
  }
}

// -----
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %rows = transform.param.constant 4 : i32 -> !transform.param<i32>
    // expected-note @-1 {{prior use here}}
    // expected-error @+1 {{use of value '%rows' expects different type than prior uses}}
    transform.tilewright.share_among_threads %blocks rows %rows columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>

func.func @parts(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  // expected-note @+1 {{payload operation}}
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply affine_map<(d0) -> (d0 * 32)>(%i)
    %column = affine.apply affine_map<(d0) -> (d0 * 32)>(%j)
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %zeros) -> (vector<32x32xf32>) {
      %x = tensor.extract_slice %a[%row, %p] [32, 16] [1, 1] : tensor<?x?xf32> to tensor<32x16xf32>
      %y = tensor.extract_slice %b[%p, %column] [16, 32] [1, 1] : tensor<?x?xf32> to tensor<16x32xf32>
      %u = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<32x16xf32>, vector<32x16xf32>
      %v = vector.transfer_read %y[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<16x32xf32>, vector<16x32xf32>
      %t = vector.contract {indexing_maps = [#product_a, #product_b, #product_c], iterator_types = ["parallel", "parallel", "reduction"],
                           kind = #vector.kind<add>} %u, %v, %s : vector<32x16xf32>, vector<16x32xf32> into vector<32x32xf32>
      scf.yield %t : vector<32x32xf32>
    }
    %z = tensor.extract_slice %o[%row, %column] [32, 32] [1, 1] : tensor<?x?xf32> to tensor<32x32xf32>
    %w = vector.transfer_write %sums, %z[%c0, %c0] {in_bounds = [true, true]} : vector<32x32xf32>, tensor<32x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %o[%row, %column] [32, 32] [1, 1] : tensor<32x32xf32> into tensor<?x?xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    %rows = transform.tune.knob<"rows"> = 5 : i64 from options = [4, 5] -> !transform.param<i64>
    // expected-error @+1 {{a tile of 32x32 is no multiple of parts of 5x4: choose parts that divide it}}
    transform.tilewright.share_among_threads %blocks rows %rows columns 4 : !transform.any_op
    transform.yield
  }
}
