// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

// expected-note @+1 {{payload operation}}
func.func @another_op(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  %ones = arith.constant dense<1.0> : vector<32x32xf32>
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
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected an scf.forall over blocks of threads, got 'func.func'}}
    transform.tilewright.share_among_threads %f rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @not_mapped(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
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
  } {mapping = [#gpu.thread<y>, #gpu.thread<x>]}
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a loop over blocks of M and N: tile with tile_using_forall and mapping}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @other_tiles(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
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
    %row = affine.apply affine_map<(d0) -> (d0 * 16)>(%i)
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
    // expected-error @+1 {{a block's tile is not of the 32x32 elements that its vectors have: tile and vectorize by the same sizes}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @no_parts(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
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
    // expected-error @+1 {{a tile of 32x32 is no multiple of parts of 5x4: choose parts that divide it}}
    transform.tilewright.share_among_threads %blocks rows 5 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @other_steps(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  %ones = arith.constant dense<1.0> : vector<32x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply #by_32(%i)
    %column = affine.apply #by_32(%j)
    // expected-note @+1 {{payload operation}}
    %sums = scf.for %p = %c0 to %k step %c8 iter_args(%s = %zeros) -> (vector<32x32xf32>) {
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
    // expected-error @+1 {{expected a loop over K from zero by as much as its vectors have, 16}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @not_from_zero(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  %ones = arith.constant dense<1.0> : vector<32x32xf32>
  %r = scf.forall (%i, %j) in (%m, %n) shared_outs(%o = %c) -> (tensor<?x?xf32>) {
    %row = affine.apply #by_32(%i)
    %column = affine.apply #by_32(%j)
    // expected-note @+1 {{payload operation}}
    %sums = scf.for %p = %c0 to %k step %c16 iter_args(%s = %ones) -> (vector<32x32xf32>) {
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
    // expected-error @+1 {{expected a loop over K that carries the sums in vectors, from zero on}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @not_in_vectors(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : vector<32x32xf32>
  %ones = arith.constant dense<1.0> : vector<32x32xf32>
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
  // expected-note @+1 {{payload operation}}
  %f = linalg.fill ins(%one : f32) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
    %over_k = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'linalg.fill' is not in vectors: vectorize it first}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @two_loops(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
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
    scf.for %e = %c0 to %k step %c1 {
    }
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
    // expected-error @+1 {{expected one loop over K in a block, got 2: tile K with tile_using_for}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    transform.yield
  }
}

// -----

#product_a = affine_map<(m, n, k) -> (m, k)>
#product_b = affine_map<(m, n, k) -> (k, n)>
#product_c = affine_map<(m, n, k) -> (m, n)>
#by_32 = affine_map<(d0) -> (d0 * 32)>

func.func @twice(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>, %m: index, %n: index, %k: index) -> tensor<?x?xf32> {
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
    transform.tilewright.share_among_threads %blocks rows 4 columns 4 : !transform.any_op
    // expected-error @+1 {{the loop already carries #tilewright.threads<rows = 4, columns = 4> and cannot carry #tilewright.threads<rows = 4, columns = 8> too: decide it once}}
    transform.tilewright.share_among_threads %blocks rows 4 columns 8 : !transform.any_op
    transform.yield
  }
}
