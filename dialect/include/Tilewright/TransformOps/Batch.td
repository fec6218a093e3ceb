// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_BATCH_TD
#define TILEWRIGHT_TRANSFORMOPS_BATCH_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_DropBatchOp : Tilewright_TransformEachOp<"drop_batch"> {
  let summary = "Takes the batch dimensions, which tiling has left one element of, out of linalg ops";
  let description = [{
    Gives each linalg op on tensors whose first `count` loops have one iteration each the same op without those loops, on
    slices of its operands that lack those dimensions, or on what an operand was before a `tensor.expand_shape` gave it one.
    What is then a matrix product is a `linalg.matmul`; a `linalg.fill`
    stays one, and everything else is a `linalg.generic`. Attributes that are not the op's own, such as marks, stay.
    An op of which one of those loops has more than one iteration is left as it is. An op whose attribute `own_batch` says of
    how many loops its batch is, loses those.

    Why not upstream: `apply_patterns.linalg.fold_unit_extent_dims_via_slices` drops every dimension of one element, those of
    a matrix of one row among them, takes `linalg.generic` only, and leaves one. The work is done by upstream's
    `linalg::dropUnitDims`.

    ```mlir
    %p = linalg.contract indexing_maps = [(b, m, n, k) -> (b, m, k), (b, m, n, k) -> (k, n), (b, m, n, k) -> (b, m, n)]
           ins(%a, %w : tensor<1x8x16xf32>, tensor<16x32xf32>) outs(%c : tensor<1x8x32xf32>)
    // becomes, with `count 1`,
    %a0 = tensor.extract_slice %a[0, 0, 0] [1, 8, 16] [1, 1, 1] : tensor<1x8x16xf32> to tensor<8x16xf32>
    %c0 = tensor.extract_slice %c[0, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<1x8x32xf32> to tensor<8x32xf32>
    %p0 = linalg.matmul ins(%a0, %w) outs(%c0)
    %p = tensor.insert_slice %p0 into %c[0, 0, 0] [1, 8, 32] [1, 1, 1]
    ```

    The handle is consumed. A silenceable failure: an op is no linalg op on tensors, or upstream does not take its operands.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$count);
  let results = (outs);
  let assemblyFormat = "$target `count` $count attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_BATCH_TD
