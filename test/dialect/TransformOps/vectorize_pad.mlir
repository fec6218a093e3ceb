// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --split-input-file --transform-interpreter --canonicalize --cse | FileCheck %s

module attributes {transform.with_named_sequence} {
  // A source that may be narrower than the result: a copy without masks for one that fills it, one that reads out of
  // bounds by declaration for one that does not, and the missing rows afterwards.

  // CHECK-LABEL: func.func @partial
  // CHECK-SAME: %[[SOURCE:[a-z0-9]+]]: tensor<?x?xf32>, %[[DEST:[a-z0-9]+]]: tensor<3x5x8xf32>
  // CHECK-DAG: %[[C0:[a-z0-9_]+]] = arith.constant 0 : index
  // CHECK-DAG: %[[C4:[a-z0-9_]+]] = arith.constant 4 : index
  // CHECK-DAG: %[[C5:[a-z0-9_]+]] = arith.constant 5 : index
  // CHECK-DAG: %[[C8:[a-z0-9_]+]] = arith.constant 8 : index
  // CHECK-DAG: %[[ROWS:[a-z0-9_]+]] = tensor.dim %[[SOURCE]], %[[C0]]
  // CHECK-DAG: %[[COLUMNS:[a-z0-9_]+]] = tensor.dim %[[SOURCE]], %{{.*}}
  // CHECK-DAG: %[[TILE:[a-z0-9_]+]] = tensor.extract_slice %[[DEST]][1, 0, 0] [1, 5, 8] [1, 1, 1]
  // CHECK: %[[FULL:[a-z0-9_]+]] = arith.cmpi eq, %[[COLUMNS]], %[[C8]]
  // CHECK: %[[COPIED:[a-z0-9_]+]] = scf.if %[[FULL]]
  // CHECK: scf.for %[[ROW:[a-z0-9_]+]] = %[[C0]] to %[[ROWS]] {{.*}} iter_args(%{{.*}} = %[[TILE]])
  // CHECK: vector.transfer_read %[[SOURCE]][%[[ROW]], %[[C0]]]{{.*}}in_bounds = [true]{{.*}}vector<4xf32>
  // CHECK: vector.transfer_write {{.*}}in_bounds = [true]
  // CHECK: vector.transfer_read %[[SOURCE]][%[[ROW]], %[[C4]]]{{.*}}in_bounds = [true]{{.*}}vector<4xf32>
  // CHECK: vector.transfer_write {{.*}}in_bounds = [true]
  // CHECK: else
  // CHECK: scf.for
  // CHECK-COUNT-2: vector.transfer_read %[[SOURCE]]{{.*}}, %{{.*}} : tensor<?x?xf32>, vector<4xf32>
  // CHECK-NOT: vector.transfer_read
  // CHECK: scf.for %[[ROW:[a-z0-9_]+]] = %[[ROWS]] to %[[C5]] {{.*}} iter_args(%{{.*}} = %[[COPIED]])
  // CHECK-COUNT-2: vector.transfer_write %{{.*}}in_bounds = [true]
  // CHECK-NOT: vector.transfer
  // CHECK-NOT: tensor.pad
  // CHECK: return
  func.func @partial(%a: tensor<?x?xf32>, %d: tensor<3x5x8xf32>, %h: index, %w: index) -> tensor<3x5x8xf32> {
    %z = arith.constant 0.0 : f32
    %p = tensor.pad %a nofold low[0, 0] high[%h, %w] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<?x?xf32> to tensor<5x8xf32>
    %r = tensor.insert_slice %p into %d[1, 0, 0] [1, 5, 8] [1, 1, 1] : tensor<5x8xf32> into tensor<3x5x8xf32>
    return %r : tensor<3x5x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // A source that is known to fill its columns takes one loop and no mask; rows of more than four vectors take a loop
  // over vectors. f64, and lanes that do not divide the row: what is left is one narrower vector.

  // CHECK-LABEL: func.func @full
  // CHECK-NOT: scf.if
  // CHECK-COUNT-2: scf.for
  // CHECK: vector.transfer_read {{.*}}in_bounds = [true]{{.*}}vector<3xf64>
  // CHECK: vector.transfer_read {{.*}}in_bounds = [true]{{.*}}vector<2xf64>
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @full(%a: tensor<4x17xf64>) -> tensor<4x17xf64> {
    %z = arith.constant 0.0 : f64
    %p = tensor.pad %a nofold low[0, 0] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f64
    } : tensor<4x17xf64> to tensor<4x17xf64>
    return %p : tensor<4x17xf64>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 3 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // Fewer columns than lanes; the padding value is a constant of the region, or comes from outside.

  // CHECK-LABEL: func.func @narrow
  // CHECK-SAME: %[[VALUE:[a-z0-9]+]]: i8
  // CHECK: %[[ONE:[a-z0-9_]+]] = arith.constant dense<1.{{.*}}> : vector<2xf32>
  // CHECK-COUNT-2: vector.transfer_read {{.*}}, %[[VALUE]]{{.*}}vector<2xi8>
  // CHECK: vector.transfer_write %[[ONE]]
  func.func @narrow(%a: tensor<2x?xi8>, %b: tensor<1x2xf32>, %v: i8, %w: index) -> (tensor<2x2xi8>, tensor<2x2xf32>) {
    %p = tensor.pad %a low[0, 0] high[0, %w] {
    ^bb0(%i: index, %j: index):
      tensor.yield %v : i8
    } : tensor<2x?xi8> to tensor<2x2xi8>
    %q = tensor.pad %b low[0, 0] high[1, 0] {
    ^bb0(%i: index, %j: index):
      %one = arith.constant 1.0 : f32
      tensor.yield %one : f32
    } : tensor<1x2xf32> to tensor<2x2xf32>
    return %p, %q : tensor<2x2xi8>, tensor<2x2xf32>
  }

  // A tile inserted into the padded tensor is no destination for it.

  // CHECK-LABEL: func.func @inserted_into
  // CHECK: tensor.empty
  // CHECK: vector.transfer_read
  // CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [1, 1]
  func.func @inserted_into(%a: tensor<1x2xf32>, %t: tensor<1x1xf32>) -> tensor<2x2xf32> {
    %z = arith.constant 0.0 : f32
    %p = tensor.pad %a low[0, 0] high[1, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<1x2xf32> to tensor<2x2xf32>
    %r = tensor.insert_slice %t into %p[0, 0] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<2x2xf32>
    return %r : tensor<2x2xf32>
  }

  // Nothing to copy from, and nothing to copy to.

  // CHECK-LABEL: func.func @empty
  // CHECK-NOT: vector.transfer_read
  // CHECK: vector.transfer_write %{{.*}} : vector<4xf64>
  // CHECK-NOT: vector.transfer
  // CHECK: return
  func.func @empty(%a: tensor<0x4xf64>, %b: tensor<3x0xf64>) -> (tensor<2x4xf64>, tensor<4x0xf64>) {
    %z = arith.constant 0.0 : f64
    %p = tensor.pad %a low[0, 0] high[2, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f64
    } : tensor<0x4xf64> to tensor<2x4xf64>
    %q = tensor.pad %b low[0, 0] high[1, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f64
    } : tensor<3x0xf64> to tensor<4x0xf64>
    return %p, %q : tensor<2x4xf64>, tensor<4x0xf64>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 4 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // Two rows at a time: whole pairs, a pair of which one row may be missing, and pairs of padding only.

  // CHECK-LABEL: func.func @pairs_of_rows
  // CHECK: scf.for
  // CHECK: vector.transfer_read {{.*}}in_bounds = [true, true]{{.*}}vector<2x8xbf16>
  // CHECK: vector.transfer_write {{.*}}in_bounds = [true, true]
  // CHECK: scf.for
  // CHECK: vector.transfer_read {{.*}}in_bounds = [false, true]{{.*}}vector<2x8xbf16>
  // CHECK: vector.transfer_write {{.*}}in_bounds = [true, true]
  // CHECK: scf.for
  // CHECK-NOT: vector.transfer_read
  // CHECK: vector.transfer_write {{.*}}in_bounds = [true, true]
  func.func @pairs_of_rows(%a: tensor<?x8xbf16>, %h: index) -> tensor<6x8xbf16> {
    %z = arith.constant 0.0 : bf16
    %p = tensor.pad %a nofold low[0, 0] high[%h, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : bf16
    } : tensor<?x8xbf16> to tensor<6x8xbf16>
    return %p : tensor<6x8xbf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 8 rows 2 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // Columns whose elements lie side by side: four vectors of eight rows are read and interleaved, and a row of the block
  // after the other is written. A column that may not exist is out of bounds along a dimension of its own.

  // CHECK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1) -> (d0)>
  // CHECK-DAG: #[[TRANSPOSED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
  // CHECK-LABEL: func.func @transposed
  // CHECK-SAME: %[[SOURCE:[a-z0-9]+]]: tensor<8x?xf32>
  // CHECK: scf.if
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}in_bounds = [true], permutation_map = #[[DOWN]]{{.*}}vector<8xf32>
  // CHECK-COUNT-16: vector.shuffle {{.*}} : vector<4xf32>, vector<4xf32>
  // CHECK-NOT: vector.shuffle
  // CHECK-COUNT-8: vector.transfer_write {{.*}} : vector<4xf32>
  // CHECK: else
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}in_bounds = [false, true], permutation_map = #[[TRANSPOSED]]{{.*}}vector<1x8xf32>
  // CHECK-COUNT-16: vector.shuffle {{.*}} : vector<4xf32>, vector<4xf32>
  // CHECK-NOT: vector.shuffle
  // CHECK-COUNT-8: vector.transfer_write {{.*}} : vector<4xf32>
  // CHECK-NOT: vector.transfer
  // CHECK: return
  func.func @transposed(%a: tensor<8x?xf32>, %w: index) -> tensor<8x4xf32> {
    %z = arith.constant 0.0 : f32
    %p = tensor.pad %a nofold low[0, 0] high[0, %w] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<8x?xf32> to tensor<8x4xf32>
    return %p : tensor<8x4xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 4 transposed : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // Of what is trimmed, only the vector where the source ends is out of bounds, whichever of its columns do not exist; rows that
  // are begun are masked, and not looked for one by one.

  // CHECK-LABEL: func.func @ends
  // CHECK-SAME: %[[SOURCE:[a-z0-9]+]]: tensor<?x?xf32>
  // CHECK-NOT: scf.if
  // CHECK: %[[COUNT:[a-z0-9_]+]] = arith.divui
  // CHECK: %[[WHOLE:[a-z0-9_]+]] = arith.muli %[[COUNT]]
  // CHECK: scf.for %{{.*}} to %[[WHOLE]]
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}in_bounds = [true]{{.*}}vector<6xf32>
  // CHECK: scf.for %{{.*}} = %[[WHOLE]] to
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}in_bounds = [false, true]{{.*}}vector<1x6xf32>
  // CHECK: scf.for
  // CHECK: scf.for %{{.*}} to %[[SPLIT:[a-z0-9_]+]]
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}{permutation_map = #{{[a-z0-9]+}}} : tensor<?x?xf32>, vector<6xf32>
  // CHECK: scf.for %{{.*}} = %[[SPLIT]] to
  // CHECK-COUNT-4: vector.transfer_read %[[SOURCE]]{{.*}}{permutation_map = #{{[a-z0-9]+}}} : tensor<?x?xf32>, vector<1x6xf32>
  // CHECK: return
  func.func @ends(%a: tensor<?x?xf32>, %h: index, %w: index) -> tensor<6x16xf32> {
    %z = arith.constant 0.0 : f32
    %p = tensor.pad %a nofold low[0, 0] high[%h, %w] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : f32
    } : tensor<?x?xf32> to tensor<6x16xf32>
    return %p : tensor<6x16xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 4 transposed trimmed 1 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // Where masks are cheap, what is not a whole block has one code: reads of what is there of a column, or of nothing. Pairs of
  // rows are moved as units: four of eight columns in a block, eight of which two registers hold. Blocks follow each other
  // along the lines of the source, which are columns.

  // CHECK-LABEL: func.func @masked
  // CHECK-SAME: %[[SOURCE:[a-z0-9]+]]: tensor<?x?xbf16>
  // CHECK-NOT: scf.if
  // CHECK: scf.for %[[COLUMN:[a-z0-9_]+]] =
  // CHECK: %[[WHOLE:[a-z0-9_]+]] = arith.select
  // CHECK: scf.for %[[ROW:[a-z0-9_]+]] = %{{.*}} to %[[WHOLE]]
  // CHECK: vector.transfer_read %[[SOURCE]][%[[ROW]], %[[COLUMN]]]{{.*}}in_bounds = [true]{{.*}} : tensor<?x?xbf16>, vector<8xbf16>
  // CHECK-COUNT-7: vector.transfer_read %[[SOURCE]]{{.*}}in_bounds = [true]{{.*}} : tensor<?x?xbf16>, vector<8xbf16>
  // CHECK-COUNT-4: vector.shuffle {{.*}} : vector<4xi32>, vector<4xi32>
  // CHECK-COUNT-8: vector.shuffle {{.*}} : vector<8xi32>, vector<8xi32>
  // CHECK-COUNT-4: vector.transfer_write {{.*}} : vector<2x8xbf16>
  // CHECK: scf.for %{{.*}} = %[[WHOLE]] to
  // CHECK: %[[MASK:[a-z0-9_]+]] = vector.create_mask
  // CHECK: vector.transfer_read %[[SOURCE]]{{.*}}, %[[MASK]] {in_bounds = [true]
  // CHECK-COUNT-7: vector.transfer_read %[[SOURCE]]
  // CHECK-NOT: vector.transfer_read
  // CHECK: return
  func.func @masked(%a: tensor<?x?xbf16>, %h: index, %w: index) -> tensor<8x16xbf16> {
    %z = arith.constant 0.0 : bf16
    %p = tensor.pad %a nofold low[0, 0] high[%h, %w] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : bf16
    } : tensor<?x?xbf16> to tensor<8x16xbf16>
    return %p : tensor<8x16xbf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 8 rows 2 transposed masked trimmed 0 : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  // What is multiplied in steps of eight rows reads the last one whole: the rest of it is zeros, and nothing beyond is written.

  // CHECK-DAG: #[[PAIRS:.*]] = affine_map<{{.*}} ceildiv 2) * 2)>
  // CHECK-DAG: #[[STEPS:.*]] = affine_map<{{.*}} ceildiv 8) * 8)>
  // CHECK-LABEL: func.func @steps
  // CHECK-DAG: %[[PADDED:.*]] = affine.apply #[[PAIRS]]
  // CHECK-DAG: %[[READ:.*]] = affine.apply #[[STEPS]]
  // CHECK: scf.for %{{.*}} = %[[PADDED]] to %[[READ]] step
  // CHECK-NOT: vector.transfer_read
  // CHECK: vector.transfer_write %{{.*}} : vector<2x4xbf16>
  // CHECK-NOT: scf.for
  // CHECK: return
  func.func @steps(%a: tensor<?x4xbf16>, %h: index) -> tensor<64x4xbf16> {
    %z = arith.constant 0.0 : bf16
    %p = tensor.pad %a nofold low[0, 0] high[%h, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %z : bf16
    } : tensor<?x4xbf16> to tensor<64x4xbf16>
    return %p : tensor<64x4xbf16>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %pads = transform.structured.match ops{["tensor.pad"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.tilewright.vectorize_pad %pads lanes 4 rows 2 trimmed 0 step 8 : !transform.any_op
    transform.yield
  }
}
