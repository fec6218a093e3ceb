// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // One loop reduces, one chooses the slice: the tile starts at zero in the first step of the one that reduces.

  // CHECK-LABEL: func.func @blocked
  // CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<8x8xf32>
  // CHECK-NOT: linalg.fill
  // CHECK-DAG: %[[ZERO:[a-z0-9_]+]] = arith.constant dense<0.{{.*}}> : vector<4x8xf32>
  // CHECK-DAG: %[[START:[a-z0-9_]+]] = arith.constant 2 : index
  // CHECK: scf.for %[[P:[a-z0-9_]+]] = %[[START]] {{.*}} iter_args(%{{.*}} = %[[C]])
  // CHECK: scf.for %[[I:[a-z0-9_]+]] =
  // CHECK: %[[TILE:[a-z0-9_]+]] = tensor.extract_slice %{{.*}}[%[[I]], 0]
  // CHECK: %[[FIRST:[a-z0-9_]+]] = arith.cmpi eq, %[[P]], %[[START]]
  // CHECK: %[[ACC:[a-z0-9_]+]] = scf.if %[[FIRST]] -> (vector<4x8xf32>)
  // CHECK-NEXT: scf.yield %[[ZERO]]
  // CHECK: else
  // CHECK: vector.transfer_read %[[TILE]]
  // CHECK: arith.addf %[[ACC]]
  func.func @blocked(%c: tensor<8x8xf32>, %x: vector<4x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.for %p = %c2 to %c8 step %c2 iter_args(%u = %f) -> tensor<8x8xf32> {
      %q = scf.for %i = %c0 to %c8 step %c4 iter_args(%v = %u) -> tensor<8x8xf32> {
        %s = tensor.extract_slice %v[%i, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
        %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
        %b = arith.addf %a, %x : vector<4x8xf32>
        %w = vector.transfer_write %b, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
        %n = tensor.insert_slice %w into %v[%i, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
        scf.yield %n : tensor<8x8xf32>
      }
      scf.yield %q : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }

  // No loop reduces: the start is a constant, and nothing is read. f64, another value than zero, a tile that is
  // partly out of bounds.

  // CHECK-LABEL: func.func @parallel
  // CHECK-NOT: linalg.fill
  // CHECK: %[[ONE:[a-z0-9_]+]] = arith.constant dense<1.{{.*}}> : vector<4x8xf64>
  // CHECK-NOT: vector.transfer_read
  // CHECK: arith.addf %{{.*}}, %[[ONE]]
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @parallel(%c: tensor<8x5xf64>, %x: vector<4x8xf64>) -> tensor<8x5xf64> {
    %one = arith.constant 1.0 : f64
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%one : f64) outs(%c : tensor<8x5xf64>) -> tensor<8x5xf64>
    %r = scf.for %i = %c0 to %c8 step %c4 iter_args(%v = %f) -> tensor<8x5xf64> {
      %s = tensor.extract_slice %v[%i, 0] [4, 5] [1, 1] : tensor<8x5xf64> to tensor<4x5xf64>
      %a = vector.transfer_read %s[%c0, %c0], %one {in_bounds = [true, false]} : tensor<4x5xf64>, vector<4x8xf64>
      %b = arith.addf %x, %a : vector<4x8xf64>
      %w = vector.transfer_write %b, %s[%c0, %c0] {in_bounds = [true, false]} : vector<4x8xf64>, tensor<4x5xf64>
      %n = tensor.insert_slice %w into %v[%i, 0] [4, 5] [1, 1] : tensor<4x5xf64> into tensor<8x5xf64>
      scf.yield %n : tensor<8x5xf64>
    }
    return %r : tensor<8x5xf64>
  }

  // Two loops that reduce: both have to be at their first step. The tile is the whole tensor.

  // CHECK-LABEL: func.func @whole
  // CHECK: scf.for %[[P:[a-z0-9_]+]] = %[[C0:[a-z0-9_]+]] to
  // CHECK: scf.for %[[K:[a-z0-9_]+]] = %[[C0]] to
  // CHECK-DAG: %[[FIRST_P:[a-z0-9_]+]] = arith.cmpi eq, %[[P]], %[[C0]]
  // CHECK-DAG: %[[FIRST_K:[a-z0-9_]+]] = arith.cmpi eq, %[[K]], %[[C0]]
  // CHECK: %[[FIRST:[a-z0-9_]+]] = arith.andi %[[FIRST_P]], %[[FIRST_K]]
  // CHECK: scf.if %[[FIRST]]
  func.func @whole(%c: tensor<8x8xf32>, %x: vector<8x8xf32>) -> tensor<8x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.for %p = %c0 to %c8 step %c1 iter_args(%u = %f) -> tensor<8x8xf32> {
      %q = scf.for %k = %c0 to %c8 step %c1 iter_args(%v = %u) -> tensor<8x8xf32> {
        %a = vector.transfer_read %v[%c0, %c0], %z {in_bounds = [true, true]} : tensor<8x8xf32>, vector<8x8xf32>
        %b = arith.addf %a, %x : vector<8x8xf32>
        %w = vector.transfer_write %b, %v[%c0, %c0] {in_bounds = [true, true]} : vector<8x8xf32>, tensor<8x8xf32>
        scf.yield %w : tensor<8x8xf32>
      }
      scf.yield %q : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }

  // A peeled loop: the tile behind the loop lies beside what the loop wrote. Two reads, each with its own start.

  // CHECK-LABEL: func.func @peeled
  // CHECK-NOT: linalg.fill
  // CHECK: scf.for %[[P:[a-z0-9_]+]] = %[[C0:[a-z0-9_]+]] to
  // CHECK: scf.for
  // CHECK: %[[FIRST:[a-z0-9_]+]] = arith.cmpi eq, %[[P]], %[[C0]]
  // CHECK: scf.if %[[FIRST]] -> (vector<4x8xf32>)
  // CHECK: %[[FIRST:[a-z0-9_]+]] = arith.cmpi eq, %[[P]], %[[C0]]
  // CHECK: scf.if %[[FIRST]] -> (vector<2x8xf32>)
  // CHECK-NOT: scf.if
  // CHECK: return
  func.func @peeled(%c: tensor<10x8xf32>, %x: vector<4x8xf32>, %y: vector<2x8xf32>) -> tensor<10x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<10x8xf32>) -> tensor<10x8xf32>
    %r = scf.for %p = %c0 to %c8 step %c4 iter_args(%u = %f) -> tensor<10x8xf32> {
      %q = scf.for %i = %c0 to %c8 step %c4 iter_args(%v = %u) -> tensor<10x8xf32> {
        %s = tensor.extract_slice %v[%i, 0] [4, 8] [1, 1] : tensor<10x8xf32> to tensor<4x8xf32>
        %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
        %b = arith.addf %a, %x : vector<4x8xf32>
        %w = vector.transfer_write %b, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
        %n = tensor.insert_slice %w into %v[%i, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<10x8xf32>
        scf.yield %n : tensor<10x8xf32>
      }
      %s = tensor.extract_slice %q[8, 0] [2, 8] [1, 1] : tensor<10x8xf32> to tensor<2x8xf32>
      %a = vector.transfer_read %s[%c0, %c0], %z {in_bounds = [true, true]} : tensor<2x8xf32>, vector<2x8xf32>
      %b = arith.addf %a, %y : vector<2x8xf32>
      %w = vector.transfer_write %b, %s[%c0, %c0] {in_bounds = [true, true]} : vector<2x8xf32>, tensor<2x8xf32>
      %n = tensor.insert_slice %w into %q[8, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<10x8xf32>
      scf.yield %n : tensor<10x8xf32>
    }
    return %r : tensor<10x8xf32>
  }

  // Tiles inside a slice whose size is not known: each has its own read.

  // CHECK-LABEL: func.func @nested
  // CHECK-NOT: linalg.fill
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @nested(%c: tensor<?x8xf32>, %m: index, %x: vector<4x4xf32>) -> tensor<?x8xf32> {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<?x8xf32>) -> tensor<?x8xf32>
    %r = scf.for %i = %c0 to %m step %c4 iter_args(%v = %f) -> tensor<?x8xf32> {
      %rows = affine.min affine_map<(d0)[s0] -> (4, s0 - d0)>(%i)[%m]
      %s = tensor.extract_slice %v[%i, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
      %t0 = tensor.extract_slice %s[0, 0] [%rows, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
      %a0 = vector.transfer_read %t0[%c0, %c0], %z {in_bounds = [false, true]} : tensor<?x4xf32>, vector<4x4xf32>
      %b0 = arith.addf %a0, %x : vector<4x4xf32>
      %w0 = vector.transfer_write %b0, %t0[%c0, %c0] {in_bounds = [false, true]} : vector<4x4xf32>, tensor<?x4xf32>
      %n0 = tensor.insert_slice %w0 into %s[0, 0] [%rows, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
      %t1 = tensor.extract_slice %n0[0, 4] [%rows, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
      %a1 = vector.transfer_read %t1[%c0, %c0], %z {in_bounds = [false, true]} : tensor<?x4xf32>, vector<4x4xf32>
      %b1 = arith.addf %a1, %x : vector<4x4xf32>
      %w1 = vector.transfer_write %b1, %t1[%c0, %c0] {in_bounds = [false, true]} : vector<4x4xf32>, tensor<?x4xf32>
      %n1 = tensor.insert_slice %w1 into %n0[0, 4] [%rows, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
      %n = tensor.insert_slice %n1 into %v[%i, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> into tensor<?x8xf32>
      scf.yield %n : tensor<?x8xf32>
    }
    return %r : tensor<?x8xf32>
  }

  // Nothing to write.

  // CHECK-LABEL: func.func @empty
  // CHECK-NOT: linalg.fill
  // CHECK: return
  func.func @empty(%c: tensor<0x8xf32>) -> (vector<4x8xf32>, tensor<0x8xf32>) {
    %z = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %f = linalg.fill ins(%z : f32) outs(%c : tensor<0x8xf32>) -> tensor<0x8xf32>
    %a = vector.transfer_read %f[%c0, %c0], %z {in_bounds = [false, true]} : tensor<0x8xf32>, vector<4x8xf32>
    return %a, %f : vector<4x8xf32>, tensor<0x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %fills = transform.structured.match ops{["linalg.fill"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.forward_fill %fills : !transform.any_op
    transform.yield
  }
}
