// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

// The second tile meets the first in one row.
module attributes {transform.with_named_sequence} {
  func.func @overlap(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s0 = tensor.extract_slice %f[0, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a0 = vector.transfer_read %s0[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    %w0 = vector.transfer_write %a0, %s0[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
    %n0 = tensor.insert_slice %w0 into %f[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %s1 = tensor.extract_slice %n0[3, 0] [5, 8] [1, 1] : tensor<8x8xf32> to tensor<5x8xf32>
    %a1 = vector.transfer_read %s1[%c0, %c0], %z {in_bounds = [true, true]} : tensor<5x8xf32>, vector<5x8xf32>
    %w1 = vector.transfer_write %a1, %s1[%c0, %c0] {in_bounds = [true, true]} : vector<5x8xf32>, tensor<5x8xf32>
    %n1 = tensor.insert_slice %w1 into %n0[3, 0] [5, 8] [1, 1] : tensor<5x8xf32> into tensor<8x8xf32>
    return %n1 : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.extract_slice' meets what was written to the filled tensor before: take slices that are apart}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// The tile behind a loop meets the last of the loop.
module attributes {transform.with_named_sequence} {
  func.func @overlap_behind_a_loop(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.for %i = %c0 to %c4 step %c2 iter_args(%v = %f) -> tensor<8x8xf32> {
      %s = tensor.extract_slice %v[%i, 0] [2, 8] [1, 1] : tensor<8x8xf32> to tensor<2x8xf32>
      %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<2x8xf32>, vector<2x8xf32>
      %w = vector.transfer_write %a, %s[%c0, %c0] {in_bounds = [true, true]} : vector<2x8xf32>, tensor<2x8xf32>
      %n = tensor.insert_slice %w into %v[%i, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<8x8xf32>
      scf.yield %n : tensor<8x8xf32>
    }
    // expected-note @+1 {{payload operation}}
    %s1 = tensor.extract_slice %r[3, 0] [5, 8] [1, 1] : tensor<8x8xf32> to tensor<5x8xf32>
    %a1 = vector.transfer_read %s1[%c0, %c0], %z {in_bounds = [true, true]} : tensor<5x8xf32>, vector<5x8xf32>
    %w1 = vector.transfer_write %a1, %s1[%c0, %c0] {in_bounds = [true, true]} : vector<5x8xf32>, tensor<5x8xf32>
    %n1 = tensor.insert_slice %w1 into %r[3, 0] [5, 8] [1, 1] : tensor<5x8xf32> into tensor<8x8xf32>
    return %n1 : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.extract_slice' meets what was written to the filled tensor before: take slices that are apart}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Every second column was written; the next tile has some of them.
module attributes {transform.with_named_sequence} {
  func.func @overlap_of_strides(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s0 = tensor.extract_slice %f[0, 0] [8, 4] [1, 2] : tensor<8x8xf32> to tensor<8x4xf32>
    %a0 = vector.transfer_read %s0[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x4xf32>, vector<8x4xf32>
    %w0 = vector.transfer_write %a0, %s0[%c0, %c0] {in_bounds = [true, true]} : vector<8x4xf32>, tensor<8x4xf32>
    %n0 = tensor.insert_slice %w0 into %f[0, 0] [8, 4] [1, 2] : tensor<8x4xf32> into tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %s1 = tensor.extract_slice %n0[0, 4] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>
    %a1 = vector.transfer_read %s1[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x4xf32>, vector<8x4xf32>
    %w1 = vector.transfer_write %a1, %s1[%c0, %c0] {in_bounds = [true, true]} : vector<8x4xf32>, tensor<8x4xf32>
    %n1 = tensor.insert_slice %w1 into %n0[0, 4] [8, 4] [1, 1] : tensor<8x4xf32> into tensor<8x8xf32>
    return %n1 : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.extract_slice' meets what was written to the filled tensor before: take slices that are apart}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Where the first tile went is not known.
module attributes {transform.with_named_sequence} {
  func.func @unknown_place(%c: tensor<8x8xf32>, %k: index) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s0 = tensor.extract_slice %f[%k, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a0 = vector.transfer_read %s0[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    %w0 = vector.transfer_write %a0, %s0[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
    %n0 = tensor.insert_slice %w0 into %f[%k, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %s1 = tensor.extract_slice %n0[4, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a1 = vector.transfer_read %s1[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    %w1 = vector.transfer_write %a1, %s1[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
    %n1 = tensor.insert_slice %w1 into %n0[4, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    return %n1 : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.extract_slice' meets what was written to the filled tensor before: take slices that are apart}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// The steps of a loop share rows.
module attributes {transform.with_named_sequence} {
  func.func @overlap_of_steps(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.for %i = %c0 to %c4 step %c2 iter_args(%v = %f) -> tensor<8x8xf32> {
      // expected-note @+1 {{payload operation}}
    %s = tensor.extract_slice %v[%i, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
      %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
      %w = vector.transfer_write %a, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
      %n = tensor.insert_slice %w into %v[%i, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
      scf.yield %n : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.extract_slice' overlaps itself from one step of a loop to the next: step by its size}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A read of all after a tile was written.
module attributes {transform.with_named_sequence} {
  func.func @read_after_write(%c: tensor<8x8xf32>) -> vector<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s = tensor.extract_slice %f[0, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    %w = vector.transfer_write %a, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
    %n = tensor.insert_slice %w into %f[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %b = vector.transfer_read %n[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    return %b : vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_read' reads what may have been written before: read slices that are apart}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Part of the tile is written.
module attributes {transform.with_named_sequence} {
  func.func @part_of_a_tile(%c: tensor<8x8xf32>, %x: vector<4x8xf32>) -> (tensor<8x8xf32>, vector<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %w = vector.transfer_write %x, %f[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<8x8xf32>
    return %w, %a : tensor<8x8xf32>, vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_write' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A mask leaves elements out.
module attributes {transform.with_named_sequence} {
  func.func @masked_write(%c: tensor<8x8xf32>, %m: vector<8x8xi1>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %w = vector.transfer_write %a, %f[%c0, %c0], %m {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
    return %w : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_write' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Rows that are written turned.
module attributes {transform.with_named_sequence} {
  func.func @transposed_write(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %w = vector.transfer_write %a, %f[%c0, %c0] {in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (d1, d0)>} : vector<8x8xf32>, tensor<8x8xf32>
    return %w : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_write' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}
