// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

// The filled tensor leaves as it is.
module attributes {transform.with_named_sequence} {
  func.func @returned(%c: tensor<8x8xf32>) -> (vector<8x8xf32>, tensor<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %a = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    // expected-note @+1 {{payload operation}}
    return %a, %f : vector<8x8xf32>, tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'func.return' takes elements of the filled tensor that nothing else was written to: write all of it}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Half of it is written, the other half leaves as it is.
module attributes {transform.with_named_sequence} {
  func.func @half_written(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s = tensor.extract_slice %f[0, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    %w = vector.transfer_write %a, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
    %n = tensor.insert_slice %w into %f[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    return %n : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'func.return' takes elements of the filled tensor that nothing else was written to: write all of it}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// An untouched tile goes into another tensor.
module attributes {transform.with_named_sequence} {
  func.func @tile_elsewhere(%c: tensor<8x8xf32>, %d: tensor<8x8xf32>) -> (vector<4x8xf32>, tensor<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %s = tensor.extract_slice %f[0, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
    // expected-note @+1 {{payload operation}}
    %n = tensor.insert_slice %s into %d[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    return %a, %n : vector<4x8xf32>, tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'tensor.insert_slice' takes elements of the filled tensor that nothing else was written to: write all of it}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// One branch yields the filled tensor.
module attributes {transform.with_named_sequence} {
  func.func @branch(%c: tensor<8x8xf32>, %b: i1) -> (vector<8x8xf32>, vector<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.if %b -> tensor<8x8xf32> {
      // expected-note @+1 {{payload operation}}
      scf.yield %f : tensor<8x8xf32>
    } else {
      scf.yield %c : tensor<8x8xf32>
    }
    %a = vector.transfer_read %r[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    %a2 = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    return %a, %a2 : vector<8x8xf32>, vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.yield' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A loop yields it in place of what it carries.
module attributes {transform.with_named_sequence} {
  func.func @other_tensor(%c: tensor<8x8xf32>) -> (vector<8x8xf32>, vector<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%v = %c) -> tensor<8x8xf32> {
      // expected-note @+1 {{payload operation}}
      scf.yield %f : tensor<8x8xf32>
    }
    %a = vector.transfer_read %r[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    %a2 = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    return %a, %a2 : vector<8x8xf32>, vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.yield' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Two tensors change places in every step.
module attributes {transform.with_named_sequence} {
  func.func @swapped(%c: tensor<8x8xf32>, %d: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%v = %f, %u = %d) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      %a = vector.transfer_read %v[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
      %w = vector.transfer_write %a, %v[%c0, %c0] {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
      scf.yield %u, %w : tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %r#0, %r#1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.for' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// With no step of the loop, nothing would be filled.
module attributes {transform.with_named_sequence} {
  func.func @may_not_run(%c: tensor<8x8xf32>, %k: index) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %r = scf.for %i = %c0 to %k step %c1 iter_args(%v = %f) -> tensor<8x8xf32> {
      %a = vector.transfer_read %v[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
      %w = vector.transfer_write %a, %v[%c0, %c0] {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
      scf.yield %w : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.for' reduces, and is not known to run: give it constant bounds, or keep the fill}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A loop that never runs.
module attributes {transform.with_named_sequence} {
  func.func @does_not_run(%c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %r = scf.for %i = %c4 to %c4 step %c1 iter_args(%v = %f) -> tensor<8x8xf32> {
      %a = vector.transfer_read %v[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
      %w = vector.transfer_write %a, %v[%c0, %c0] {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
      scf.yield %w : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.for' reduces, and is not known to run: give it constant bounds, or keep the fill}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Whether the loop chooses the rows depends on a branch.
module attributes {transform.with_named_sequence} {
  func.func @opaque_offset(%c: tensor<8x8xf32>, %b: i1) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %r = scf.for %i = %c0 to %c8 step %c4 iter_args(%v = %f) -> tensor<8x8xf32> {
      %o = scf.if %b -> index {
        scf.yield %i : index
      } else {
        scf.yield %c4 : index
      }
      %s = tensor.extract_slice %v[%o, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
      %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
      %w = vector.transfer_write %a, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
      %n = tensor.insert_slice %w into %v[%o, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
      scf.yield %n : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'scf.for' chooses what is read in a way that cannot be followed: compute offsets without branches}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// What lies outside is one, not zero.
module attributes {transform.with_named_sequence} {
  func.func @other_padding(%c: tensor<8x8xf32>) -> vector<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c4 = arith.constant 4 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %one = arith.constant 1.0 : f32
    // expected-note @+1 {{payload operation}}
    %a = vector.transfer_read %f[%c4, %c4], %one : tensor<8x8xf32>, vector<8x8xf32>
    return %a : vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_read' pads with another value than the fill's: pad with the same}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// What a mask leaves out is one, not zero.
module attributes {transform.with_named_sequence} {
  func.func @masked_read(%c: tensor<8x8xf32>, %m: vector<8x8xi1>) -> vector<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %one = arith.constant 1.0 : f32
    // expected-note @+1 {{payload operation}}
    %a = vector.transfer_read %f[%c0, %c0], %one, %m {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
    return %a : vector<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'vector.transfer_read' pads with another value than the fill's: pad with the same}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// A consumer that is no vector yet.
module attributes {transform.with_named_sequence} {
  func.func @not_vectorized(%c: tensor<8x8xf32>, %d: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{payload operation}}
    %r = linalg.matmul ins(%d, %d : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    return %r : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{'linalg.matmul' uses the filled tensor too: tile and vectorize every consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

// Nothing reads it.
module attributes {transform.with_named_sequence} {
  func.func @no_read(%c: tensor<8x8xf32>, %y: vector<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    // expected-note @+1 {{payload operation}}
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %w = vector.transfer_write %y, %f[%c0, %c0] {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
    return %w : tensor<8x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{no vector.transfer_read of the filled tensor: vectorize its consumer first}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func @memory(%c: memref<8x8xf32>) {
    %z = arith.constant 0.0 : f32
    // expected-note @+1 {{payload operation}}
    linalg.fill ins(%z : f32) outs(%c : memref<8x8xf32>)
    return
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected a linalg.fill on tensors}}
    transform.tilewright.forward_fill %0 : !transform.any_op
    transform.yield
  }
}
