// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is done to whole rows of a block of sums: softmax, reductions.

#ifndef TILEWRIGHT_TRANSFORMOPS_ROWS_TD
#define TILEWRIGHT_TRANSFORMOPS_ROWS_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_VectorizeRowsOp : Tilewright_TransformEachOp<"vectorize_rows"> {
  let summary = "Makes one loop over the rows of a chain of elementwise ops and reductions of rows, on vectors";
  let description = [{
    Takes the last `linalg.generic` of a chain on tensors, over (m, n) or over (m), and with it all those in its block
    that it needs: each elementwise over (m, n) or over (m), or a reduction along n by `arith.addf`, `arith.addi`,
    `arith.maximumf` or `arith.maxsi`, whose output is filled with a constant. Each becomes a pass over the row, in vectors
    of `lanes` elements, the last one masked; reductions keep four vectors. What a reduction gives stays in a register. An
    elementwise op whose output is what an earlier one left, or the block that comes in, changes the row in place.

    ```mlir
    %m = linalg.generic ins(%x) outs(%low) { maximumf }         // (m, n) -> (m)
    %e = linalg.generic ins(%m) outs(%x) { exp(%out - %in) }
    %s = linalg.generic ins(%e) outs(%zero) { addf }            // (m, n) -> (m)
    %c = linalg.generic ins(%e, %s) outs(%result) { divf }
    // becomes
    scf.for %row { max over x[row]; x[row] = exp(x[row] - max); sum over x[row]; result[row] = x[row] / sum }
    ```

    The handle is consumed. A chain of another form is a silenceable failure.

    Why not upstream: tiled by one row and fused, the values of each row are a tensor of their own, which bufferization
    copies; and `tile_reduction_using_for` keeps partial sums in memory, whose last, short part has no static size.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$lanes);
  let results = (outs);
  let assemblyFormat = "$target `lanes` $lanes attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_ROWS_TD
