// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_PACKING_TD
#define TILEWRIGHT_TRANSFORMOPS_PACKING_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_VectorizePadOp : Tilewright_TransformEachOp<"vectorize_pad"> {
  let summary = "Turns a two-dimensional tensor.pad into loops that copy vectors of a row";
  let description = [{
    Rewrites a `tensor.pad` of static result shape, zero low padding and a constant padding value into a loop over its
    rows, which copies vectors of `lanes` elements from the source straight into the destination (the slice into which
    the padded tensor is inserted, when that is its only use). A source that fills its columns is copied without masks;
    one that does not takes a second loop whose reads are out of bounds by declaration, so lowered to masked loads.
    Missing rows are filled afterwards. With `rows`, that many rows are copied at a time, as one vector of rank two, so that
    they can be interleaved later; the result then has to be a multiple of `rows` high. This is the inner part of a packing loop nest as
    `transform.structured.hoist_pad` builds it.

    With `transposed`, the elements of a column of the source lie side by side, and not those of a row. Vectors of a block's
    columns are then read, and interleaved to its rows. A block is `lanes` columns wide, but 16 at most, and what remains is
    split into powers of two. It has up to 32 rows, a divisor of the result's: 16 where that is one.

    With `masked` besides, where reading under a mask costs as much as reading a whole vector, whatever is not a whole block
    has one code: the last rows of all columns and the last columns of all rows.

    With `trimmed`, whoever reads the copy stops where the source ends along that dimension: padding of rows (0) is then
    written for a group, a block, or a `step` of so many rows that is begun only, that of columns (1) for a vector. Sources
    then end anywhere, so that of a row of more than a few vectors those that exist have a loop of their own, without masks.

    With `computed`, the source is the result of an elementwise `linalg.generic`, or a slice of it. What the generic reads is
    read in its place, and its body is done to the vectors: each element is computed once, while it is packed, and its matrix
    is never in memory. Its inputs are read at the same place or broadcast; one may be a table, of which a row's number is
    an input's element (`tensor.extract %table[%number, %column]`). Padding stays what the `tensor.pad` says.

    Why not upstream: `rewrite_in_destination_passing_style` writes every element twice (fill, then copy), tiling the
    `tensor.pad` guards every row with a test for an empty slice, and `structured.vectorize` makes one vector of the
    whole panel.

    ```mlir
    %p = tensor.pad %b nofold low[0, 0] high[0, %h] {...} : tensor<256x?xf32> to tensor<256x32xf32>
    // becomes, with lanes = 16
    %p = scf.if %full {
      scf.for %r = 0 to 256 { two vector.transfer_read in bounds, two vector.transfer_write }
    } else {
      scf.for %r = 0 to 256 { two vector.transfer_read out of bounds, two vector.transfer_write }
    }
    ```

    The handle is consumed. A `tensor.pad` of another form is a silenceable failure.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$lanes,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$rows,
                       UnitAttr:$transposed, UnitAttr:$masked, UnitAttr:$computed,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>>:$trimmed,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$step);
  let results = (outs);
  let assemblyFormat = [{
    $target `lanes` $lanes (`rows` $rows^)? (`transposed` $transposed^)? (`masked` $masked^)? (`computed` $computed^)?
    (`trimmed` $trimmed^)? (`step` $step^)? attr-dict `:` type($target)
  }];
}

#endif // TILEWRIGHT_TRANSFORMOPS_PACKING_TD
