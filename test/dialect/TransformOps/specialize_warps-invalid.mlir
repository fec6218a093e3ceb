// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @few_rows(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  %ones = arith.constant dense<1.0> : vector<32x32xf32>
    // expected-note @+1 {{payload operation}}
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply #by_32(%i)
    %column = affine.apply #by_32(%j)
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
    // expected-error @+1 {{a tile of 32x32 is no multiple of parts of 128x1: choose parts that divide it}}
    transform.tilewright.specialize_warps %blocks buffers 2 : !transform.any_op
    transform.yield
  }
}

// -----


module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cluster: blocks that share the tile of B are neither swapped nor split: expected one of them}}
    transform.tilewright.specialize_warps %blocks buffers 2 cluster 2 swapped : !transform.any_op
    transform.yield
  }
}

// -----


module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{pair: the two blocks of a cluster multiply together: expected `cluster 2`}}
    transform.tilewright.specialize_warps %blocks buffers 2 pair : !transform.any_op
    transform.yield
  }
}

// -----


module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{streamed: the steps of tiles are divided otherwise: expected no `split`}}
    transform.tilewright.specialize_warps %blocks buffers 2 split 2 streamed : !transform.any_op
    transform.yield
  }
}
