// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: tilewright-opt %s --transform-interpreter --split-input-file --verify-diagnostics

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// Groups of four bf16 do not fill 32 bits.
module attributes {transform.with_named_sequence} {
  func.func @groups(%pa: memref<16x64xbf16>, %pb: memref<16x64xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x64xbf16>, vector<16x64xbf16>
    %a1 = vector.shape_cast %a0 : vector<16x64xbf16> to vector<16x16x4xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x64xbf16>, vector<16x64xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x64xbf16> to vector<16x16x4xbf16>
    %a2 = arith.extf %a1 : vector<16x16x4xbf16> to vector<16x16x4xf32>
    %b2 = arith.extf %b1 : vector<16x16x4xbf16> to vector<16x16x4xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x4xf32>, vector<16x16x4xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the contraction is none for AMX: expected groups of 2 elements, got 4}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// 17 rows are more than a tile's, and are no two tiles as long.
module attributes {transform.with_named_sequence} {
  func.func @rows(%pa: memref<17x32xbf16>, %pb: memref<16x32xbf16>, %acc: vector<17x16xf32>) -> vector<17x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<17x32xbf16>, vector<17x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<17x32xbf16> to vector<17x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<17x16x2xbf16> to vector<17x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<17x16x2xf32>, vector<16x16x2xf32> into vector<17x16xf32>
    return %d : vector<17x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected rows in tiles as long, of up to 16, and columns in multiples of 16, or fewer}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// Six tiles of sums, two of one operand and one of the other are one too many.
module attributes {transform.with_named_sequence} {
  func.func @registers(%pa: memref<48x32xbf16>, %pb: memref<16x64xbf16>, %acc: vector<48x32xf32>) -> vector<48x32xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<48x32xbf16>, vector<48x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<48x32xbf16> to vector<48x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x64xbf16>, vector<16x64xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x64xbf16> to vector<16x32x2xbf16>
    %a2 = arith.extf %a1 : vector<48x16x2xbf16> to vector<48x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x32x2xbf16> to vector<16x32x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<48x16x2xf32>, vector<16x32x2xf32> into vector<48x32xf32>
    return %d : vector<48x32xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{it needs 9 tile registers, and there are 8}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// A read that may leave its bounds.
module attributes {transform.with_named_sequence} {
  func.func @partial(%pa: memref<?x32xbf16>, %pb: memref<16x32xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [false, true]} : memref<?x32xbf16>, vector<16x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected operands that are read in bounds from contiguous rows}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// Elements of a row that lie apart.
module attributes {transform.with_named_sequence} {
  func.func @strided(%pa: memref<16x32xbf16, strided<[64, 2]>>, %pb: memref<16x32xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16, strided<[64, 2]>>, vector<16x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected operands that are read in bounds from contiguous rows}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// A vector that is not read.
module attributes {transform.with_named_sequence} {
  func.func @unread(%a1: vector<16x16x2xbf16>, %pb: memref<16x32xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected operands that are read in bounds from contiguous rows}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// B whose groups do not lie side by side.
module attributes {transform.with_named_sequence} {
  func.func @other_shape(%pa: memref<16x32xbf16>, %pb: memref<32x16xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<32x16xbf16>, vector<32x16xbf16>
    %b1 = vector.shape_cast %b0 : vector<32x16xbf16> to vector<16x16x2xbf16>
    %a2 = arith.extf %a1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected operands that are read in bounds from contiguous rows}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}

// -----

#lhs = affine_map<(m, n, ko, ki) -> (m, ko, ki)>
#rhs = affine_map<(m, n, ko, ki) -> (ko, n, ki)>
#sum = affine_map<(m, n, ko, ki) -> (m, n)>
#dot = {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}

// What was read may have been written over.
module attributes {transform.with_named_sequence} {
  func.func @written(%pa: memref<16x32xbf16>, %pb: memref<16x32xbf16>, %acc: vector<16x16xf32>) -> vector<16x16xf32> {
    %c0 = arith.constant 0 : index
    %p = arith.constant 0.0 : bf16
    %a0 = vector.transfer_read %pa[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %a1 = vector.shape_cast %a0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    %b0 = vector.transfer_read %pb[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xbf16>, vector<16x32xbf16>
    %b1 = vector.shape_cast %b0 : vector<16x32xbf16> to vector<16x16x2xbf16>
    vector.transfer_write %b0, %pa[%c0, %c0] {in_bounds = [true, true]} : vector<16x32xbf16>, memref<16x32xbf16>
    %a2 = arith.extf %a1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    %b2 = arith.extf %b1 : vector<16x16x2xbf16> to vector<16x16x2xf32>
    // expected-note @+1 {{payload operation}}
    %d = vector.contract #dot %a2, %b2, %acc : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
    return %d : vector<16x16xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{expected operands that are read in the contraction's block, with no write to memory in between}}
    transform.tilewright.contract_to_amx %0 : !transform.any_op
    transform.yield
  }
}
