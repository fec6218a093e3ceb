// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_TRIM_TD
#define TILEWRIGHT_TRANSFORMOPS_TRIM_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_TrimOp : Tilewright_TransformEachOp<"trim"> {
  let summary = "Ends the sums of a padded product where the elements of its operands end";
  let description = [{
    Takes a linalg op with one reduction, whose inputs were padded along it by `tensor.pad`, and lets it read no more of
    them than the elements before they were padded, rounded up to a multiple of `multiple`. The packed panels of a block
    of K then have the size of a whole block, which is known, and a short block is as fast as its length says.

    Why not upstream: what `structured.pad` made longer, nothing makes shorter again, and without padding
    `structured.hoist_pad` finds no static size for its panels.

    ```mlir
    %pa = tensor.pad %a ... : tensor<?x?xf32> to tensor<6x512xf32>
    %pb = tensor.pad %b ... : tensor<?x?xf32> to tensor<512x64xf32>
    linalg.matmul ins(%pa, %pb : tensor<6x512xf32>, tensor<512x64xf32>)
    // becomes, with multiple = 1 and %k the columns of %a
    %ta = tensor.extract_slice %pa[0, 0] [6, %k] [1, 1] : tensor<6x512xf32> to tensor<6x?xf32>
    %tb = tensor.extract_slice %pb[0, 0] [%k, 64] [1, 1] : tensor<512x64xf32> to tensor<?x64xf32>
    linalg.matmul ins(%ta, %tb : tensor<6x?xf32>, tensor<?x64xf32>)
    ```

    The handle is consumed; the result is one to the new product. A silenceable failure: the op has no single
    reduction, or an input that takes part in it is no `tensor.pad`.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$multiple);
  let results = (outs TransformHandleTypeInterface:$trimmed);
  let assemblyFormat = "$target (`multiple` $multiple^)? attr-dict `:` functional-type($target, $trimmed)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_TRIM_TD
