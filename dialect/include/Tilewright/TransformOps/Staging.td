// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_STAGING_TD
#define TILEWRIGHT_TRANSFORMOPS_STAGING_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_StageOp : Tilewright_TransformEachOp<"stage"> {
  let summary = "Moves an operand to a buffer of its own, whose rows are a little longer";
  let description = [{
    Gives a linalg op a copy of its operand number `operand`, a two-dimensional tensor, in a new tensor of its size, or, where
    that is not known, of `most` rows and columns, or of the least size that it surely fits, of
    which each row is `gap` elements longer. Rows a power of two apart lie in the same set of a cache, where they push each
    other out; in the new tensor they do not, as long as `gap` elements fill an odd number of lines.

    What the op accumulates into starts as the former tensor: filled, where that was filled, otherwise copied. A `linalg.copy`
    then brings the result where it belongs, unless that was a `tensor.empty`: then the result's users take it as it is.

    With `transposed`, the new tensor has the operand's columns as its rows, and the op reads it so: its elements lie side by side along
    the other dimension.

    Why not upstream: `structured.pad` makes longer what operands share, so that columns of C would be columns of B too, and
    `structured.bufferize_to_allocation` and `structured.transpose_matmul` make buffers without gaps; the latter takes no generic op.

    ```mlir
    %f = linalg.fill ins(%zero) outs(%c)
    %r = linalg.matmul ins(%a, %b) outs(%f)
    // becomes, with `operand 2 gap 48`,
    %rows = bufferization.alloc_tensor() : tensor<8x4144xf32>
    %s = tensor.extract_slice %rows[0, 0] [8, 4096] [1, 1]
    %f = linalg.fill ins(%zero) outs(%s)
    %r = linalg.matmul ins(%a, %b) outs(%f)
    %copy = linalg.copy ins(%r) outs(%c)
    ```

    The handle stays valid. A silenceable failure: there is no such operand, nothing bounds its size, or it is no input that can be
    transposed.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntNonNegative]>:$operand,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$gap, UnitAttr:$transposed,
                       OptionalAttr<DenseI64ArrayAttr>:$most);
  let results = (outs);
  let assemblyFormat = "(`transposed` $transposed^)? $target `operand` $operand `gap` $gap (`most` $most^)? attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_STAGING_TD
