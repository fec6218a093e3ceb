// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of small types: from a tile of a matmul to instructions that multiply pairs or quads of elements and add them.

#ifndef TILEWRIGHT_TRANSFORMOPS_DOT_TD
#define TILEWRIGHT_TRANSFORMOPS_DOT_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_SplitProductsOp : Tilewright_TransformEachOp<"split_products"> {
  let summary = "Computes products of f32 from pieces of bf16, which packed panels hold";
  let description = [{
    Each element of an operand becomes `pieces` numbers of bf16 whose sum it is, or nearly is: x0 is x rounded, x1 is x - x0
    rounded, x2 is x - x0 - x1. Each `vector.contract` of f32 below the target becomes one for each pair of pieces
    xi, yj with i + j of at most `order`, the smallest ones first, all of which add to the same sums. Where a loop does nothing
    but sum such products, there is one loop after the other, each for one pair:

    ```mlir
    vector.transfer_write %rows, %panel[%j, %k, %c] : vector<2x16xf32>, memref<4x512x64xf32>
    ... vector.contract (m,k),(k,n)->(m,n) %a, (vector.transfer_read %panel[%j, %k, 0]), %c
    // becomes, with two pieces and order 1
    vector.transfer_write %rows_entry, %panel[%j, entry, %k, %c] : vector<2x16xbf16>, memref<4x3x512x64xbf16>   (three times)
    ... %c1 = vector.contract (extf %a1), (extf %b0), %c
    ... %c2 = vector.contract (extf %a0), (extf %b1), %c1
    ... vector.contract (extf %a0 with NaN and Inf), (extf %b0 with NaN and Inf), %c2
    ```

    An allocation that only vector transfers use, and of which all that is read is multiplied, holds the pieces. Other operands
    are split where they are multiplied. Pieces of NaN and Inf are zero but for one entry, which is multiplied by its like
    only: an Inf would meet a zero, or a piece of the other sign, and become a NaN.

    Source: G. Henry, P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
    Higher-Precision Computations", IEEE ARITH 2019.

    Why not upstream: it has no such decomposition of contractions, and no view of a packed buffer as a value.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$pieces,
                       ConfinedAttr<I64Attr, [IntPositive]>:$order);
  let results = (outs);
  let assemblyFormat = "$target `pieces` $pieces `order` $order attr-dict `:` type($target)";
}

def Tilewright_DotFormOp : Tilewright_TransformEachOp<"dot_form"> {
  let summary = "Groups the reduction of contractions by the depth of a dot product";
  let description = [{
    Rewrites each `vector.contract` of extended operands, (m, k) by (k, n), below the target into one over (m, n, ko, ki),
    where ki has `depth` elements, which lie side by side in both operands:

    ```mlir
    %a = arith.extsi %x : vector<6x4xi8> to vector<6x4xi32>
    %b = arith.extsi %y : vector<4x64xi8> to vector<4x64xi32>
    vector.contract (m,k),(k,n)->(m,n) %a, %b, %c
    // becomes, with depth 4
    %a = arith.extsi (vector.shape_cast %x) : vector<6x1x4xi8> to vector<6x1x4xi32>
    %b = arith.extsi (vector.transpose (vector.shape_cast %y), [0, 2, 1]) : vector<1x64x4xi8> to ...
    vector.contract (m,ko,ki),(ko,n,ki)->(m,n) %a, %b, %c
    ```

    With `storage`, operands are first extended to that type only, so that they can be packed so. With `flip`, the sign
    of the left operand is turned, for instructions that multiply unsigned by signed elements: the highest bit of each
    element is inverted, which adds (to signed) or subtracts (from unsigned) 128, and 128 times the sums of B's columns
    are taken off, or added, before the loop over k. Those sums are made in a loop of their own, as far outside as B's
    elements stay the same.

    A contraction whose k is no multiple of `multiple` (by default of `depth`), whose m is no multiple of `rows`, or whose
    elements are of another type than `element`, is left alone.

    Why not upstream: its VNNI patterns take contractions that are in this form already, from operands packed by
    `linalg.pack`, which copies whole operands and not the panels of a block.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, TypeAttr:$element, ConfinedAttr<I64Attr, [IntPositive]>:$depth,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$multiple,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$rows, OptionalAttr<TypeAttr>:$storage,
                       UnitAttr:$flip);
  let results = (outs);
  let assemblyFormat = [{
    $target `of` $element `depth` $depth (`multiple` $multiple^)? (`rows` $rows^)? (`storage` $storage^)? (`flip` $flip^)?
    attr-dict `:` type($target)
  }];
}

def Tilewright_ConvertPanelsOp : Tilewright_TransformEachOp<"convert_panels"> {
  let summary = "Moves what is done to each tile read from a packed panel into the copy that fills the panel";
  let description = [{
    Looks at every allocation below the target that only vector transfers use. Where every vector read from it goes
    first through the same extension to the element type `storage`, or the same exclusive-or with a constant, that is
    done to what is written instead, and the panel holds the result. Where every tile read is then grouped for dot
    products of `depth` rows, as `dot_form` does to B, rows are interleaved as they are written, and a panel of
    [KC][NR] elements becomes one of [KC / depth][NR * depth].

    Packing touches each element once; the hot loop reads it once for each tile of the other operand.

    ```mlir
    vector.transfer_write %rows, %panel[%j, %k, %c] : vector<2x32xbf16>, memref<4x512x64xbf16>
    ... vector.transpose (vector.shape_cast (vector.transfer_read %panel[%j, %k, 0])), [0, 2, 1]
    // becomes, with depth 2
    vector.transfer_write (vector.interleave %row0, %row1), %panel[%j, %k / 2, 2 * %c] : vector<64xbf16>, memref<4x256x128xbf16>
    ... vector.shape_cast (vector.transfer_read %panel[%j, %k / 2, 0])
    ```

    With `pairs`, where every tile read is grouped as `dot_form` does to A, and rows are written two at a time, their groups
    alternate in the panel, as instructions want them that multiply two rows by two columns: a panel of [MR][KC] elements
    becomes one of [MR / 2][KC / depth][2][depth].

    An allocation that is used in another way is left as it is.

    Why not upstream: it has no view of a packed buffer as a value with one layout for its writer and its readers.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$depth,
                       OptionalAttr<TypeAttr>:$storage, UnitAttr:$pairs);
  let results = (outs);
  let assemblyFormat = "$target `depth` $depth (`storage` $storage^)? (`pairs` $pairs^)? attr-dict `:` type($target)";
}

def Tilewright_ContractToDotOp : Tilewright_TransformEachOp<"contract_to_dot"> {
  let summary = "Lowers contractions in dot form to an instruction that multiplies groups of elements and adds them";
  let description = [{
    Unrolls each contraction below the target that `dot_form` made, and whose operands have elements of `element`, to calls
    of the LLVM intrinsic `intrinsic` on registers of `lanes` sums. A group of `depth` elements of A is broadcast to
    every lane. With `adds` the intrinsic takes the sum and both operands; without, it takes the operands, and the sum is
    added. With `unsigned_first` its first operand is unsigned and its second signed: operands are swapped to fit. With
    `both_unsigned` both are. Otherwise what is in every lane comes last, as instructions take it by lane, or broadcast it from
    memory.

    With `by_lane` the groups of a row of A that fill a register are read together, and each is taken out of it: for
    instructions that take one group of a register for all lanes.

    Operands are read as the instruction wants them where the contraction is the only user of a read in bounds; otherwise
    taken out of the vectors that were read, rows of B interleaved in registers.

    Contractions that the instruction cannot do, by type, sign or shape, are left alone.

    Why not upstream: of these instructions the x86vector dialect has vdpbf16ps and vpdpbssd only, and its patterns want
    contractions of one row and one register, with operands straight from memory.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, TypeAttr:$element, StrAttr:$intrinsic,
                       ConfinedAttr<I64Attr, [IntPositive]>:$depth, ConfinedAttr<I64Attr, [IntPositive]>:$lanes,
                       UnitAttr:$adds, UnitAttr:$unsigned_first, UnitAttr:$both_unsigned, UnitAttr:$by_lane);
  let results = (outs);
  let assemblyFormat = [{
    $target `of` $element `by` $intrinsic `depth` $depth `lanes` $lanes (`adds` $adds^)? (`unsigned_first` $unsigned_first^)?
    (`both_unsigned` $both_unsigned^)? (`by_lane` $by_lane^)? attr-dict `:` type($target)
  }];
}

def Tilewright_ContractToMmlaOp : Tilewright_TransformEachOp<"contract_to_mmla"> {
  let summary = "Lowers contractions in dot form to an instruction that multiplies two rows by two columns";
  let description = [{
    Unrolls each contraction below the target that `dot_form` made, with an even number of rows and of elements of `element`,
    to calls of the LLVM intrinsic `intrinsic`: its operands are groups of `depth` elements of two rows of A and of two
    columns of B, and it adds their four products to a register of `lanes` sums. The loop around a contraction then carries
    its sums in such registers, and not in rows. `unsigned_first` and `both_unsigned` are as in `contract_to_dot`.

    Contractions that the instruction cannot do, by type, sign or shape, are left alone.

    Why not upstream: its patterns (`apply_patterns.arm_neon.vector_contract_to_i8mm`) let loops carry rows of sums, which
    are taken apart and put together again in every step.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, TypeAttr:$element, StrAttr:$intrinsic,
                       ConfinedAttr<I64Attr, [IntPositive]>:$depth, ConfinedAttr<I64Attr, [IntPositive]>:$lanes,
                       UnitAttr:$unsigned_first, UnitAttr:$both_unsigned);
  let results = (outs);
  let assemblyFormat = [{
    $target `of` $element `by` $intrinsic `depth` $depth `lanes` $lanes (`unsigned_first` $unsigned_first^)?
    (`both_unsigned` $both_unsigned^)? attr-dict `:` type($target)
  }];
}

def Tilewright_ContractAlongKOp : Tilewright_TransformEachOp<"contract_along_k"> {
  let summary = "Multiplies in vectors along k, and adds up their elements after the loop over k";
  let description = [{
    Rewrites each `vector.contract`, (m, k) by (k, n), below the target whose operands are read from tensors, extended or
    not, and whose k is a multiple of `lanes`, or of `lanes` groups of `depth` elements: each of the m x n sums becomes a
    vector of `lanes` partial sums, which the loop around the contraction carries in its place and which are added up after
    it. Rows of A and columns of B are read in vectors along k.

    ```mlir
    %c = scf.for ... iter_args(%acc = %init) -> vector<2x1xf32> {
      vector.contract (m,k),(k,n)->(m,n) %a, %b, %acc : vector<2x16xf32>, vector<16x1xf32> into vector<2x1xf32>
    // becomes
    %p:2 = scf.for ... iter_args(%p0 = %zero, %p1 = %zero) -> vector<16xf32>, vector<16xf32> {
      vector.fma %a0, %b0, %p0; vector.fma %a1, %b0, %p1
    %c = %init + (vector.reduction <add>, %p#0), (vector.reduction <add>, %p#1)
    ```

    A contraction that adds to the sums of another one, as that of the last, short step of a loop does, adds to its partial
    sums.

    With `blocks`, the bits within which elements of two registers can be put together by one instruction, elements of several
    sums of a row, or of a column, are added up at a time, as many as a block has.

    ```mlir
    %s = (even elements of each block of %p#0 and %p#1) + (odd ones)    // p0+p1, p2+p3, q0+q1, q2+q3 in each
    %c = ...                                                            // and again, and then the halves
    ```

    With `intrinsic`, which takes groups of `depth` elements of type `element`, and is used as by `contract_to_dot`, elements
    are not extended, or only to `storage`. Contractions that the instruction cannot do are multiplied after extension; so are
    all without it.

    With `flip`, the sign of A is turned first: what that adds, 128 times or -128 times the sums of the columns of B, is summed up
    beside the products, and taken off in the end.

    ```mlir
    %e = by intrinsic: splat of the highest bit, %b0, added to %e0      // once for all rows
    %p = by intrinsic: %a0 xor the highest bit, %b0, added to %p0
    %c = %init + (vector.reduction <add>, %p - %e)
    ```

    With `lookup`, for a B that a prologue computes of elements of four bits in the order of `reorder_along_k` with `block` and
    `ways`: what it makes of the sixteen codes, for one block, is computed once, and each element is looked up in that table by
    the intrinsic, which takes the table and indices, of which it looks at the lowest bits only.

    ```mlir
    %w = read %codes : vector<32xi16>          // of four elements each
    %t = prologue of (0 .. 15) : vector<16xbf16>, twice
    %b0 = lookup %t, %w;  %b1 = lookup %t, %w >> 4;  %b2 = lookup %t, %w >> 8;  %b3 = lookup %t, %w >> 12
    ```

    Why not upstream: `structured.tile_reduction_using_for` makes partial sums of a tensor that the tile reads and writes, of
    as many elements as the step over k has, and not of as many as an instruction for dot products leaves.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$lanes,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$depth,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$blocks,
                       OptionalAttr<TypeAttr>:$element, OptionalAttr<TypeAttr>:$storage, OptionalAttr<StrAttr>:$intrinsic,
                       UnitAttr:$adds, UnitAttr:$unsigned_first, UnitAttr:$both_unsigned, UnitAttr:$flip,
                       OptionalAttr<StrAttr>:$lookup,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$block,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$ways);
  let results = (outs);
  let assemblyFormat = [{
    $target `lanes` $lanes (`depth` $depth^)? (`blocks` $blocks^)? (`of` $element^)? (`storage` $storage^)? (`by` $intrinsic^)? (`adds` $adds^)?
    (`unsigned_first` $unsigned_first^)? (`both_unsigned` $both_unsigned^)? (`flip` $flip^)? (`lookup` $lookup^)?
    (`block` $block^)? (`ways` $ways^)? attr-dict `:` type($target)
  }];
}

#endif // TILEWRIGHT_TRANSFORMOPS_DOT_TD
