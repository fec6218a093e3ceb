// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is done to a tile of sums before it is written.

#ifndef TILEWRIGHT_TRANSFORMOPS_EPILOGUE_TD
#define TILEWRIGHT_TRANSFORMOPS_EPILOGUE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_VectorizeEpilogueOp : Tilewright_TransformEachOp<"vectorize_epilogue"> {
  let summary = "Vectorizes an elementwise op on a tile of sums that was padded to a static shape";
  let description = [{
    Takes a `linalg.generic` over (m, n) whose first input is a tile of static shape, or the part of one that is inside
    the result, and which reads its other inputs, further tiles among them, at the same place, or broadcast. It is computed on vectors of the whole
    tile; inputs and the result are read and written out of bounds by declaration where the tile is larger than they are.

    ```mlir
    %p = linalg.matmul ... -> tensor<6x64xf32>
    %s = tensor.extract_slice %p[0, 0] [%m, %n] [1, 1]
    linalg.generic ins(%s, %bias : tensor<?x?xf32>, tensor<?xf32>) outs(%c : tensor<?x?xbf16>) { add; truncate }
    // becomes
    %v = vector.transfer_read %p[0, 0] {in_bounds}
    %b = vector.transfer_read %bias[0] {(d0) -> (0, d0)}
    vector.transfer_write (arith.truncf (arith.addf %v, %b)), %c[0, 0]
    ```

    With `shape`, rows and columns of the vectors, the tile is no larger than that, and nothing is known to be padded: its first input is
    read as the others are.

    Of a result that is the transpose of the tile, the vectors are transposed first, and all else is done in the order of the result.

    Returns the write. The handle is consumed. A generic of another form is a silenceable failure.

    Why not upstream: `structured.vectorize` with vector sizes masks every op of a tile of dynamic shape, and does not see
    that what it reads is the padded tile that was just computed.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       OptionalAttr<DenseI64ArrayAttr>:$shape);
  let results = (outs TransformHandleTypeInterface:$write);
  let assemblyFormat = "$target (`shape` $shape^)? attr-dict `:` functional-type($target, $write)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_EPILOGUE_TD
