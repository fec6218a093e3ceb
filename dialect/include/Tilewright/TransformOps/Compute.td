// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_COMPUTE_TD
#define TILEWRIGHT_TRANSFORMOPS_COMPUTE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_ComputeReadsOp : Tilewright_TransformEachOp<"compute_reads"> {
  let summary = "Computes what a prologue makes of a matrix where vectors of it are read";
  let description = [{
    Takes an op, and below it each `vector.transfer_read` of rows of what a prologue computes, or of a slice of that: an
    elementwise `linalg.generic` over a matrix, with the attribute `own_batch`. In its place come reads of the prologue's
    inputs and its body on vectors, so that its result is never in memory. Reads of anything else are left alone, and so
    are those of columns.

    Why not upstream: `structured.fuse_into_containing_op` moves the op into a loop, and what it computes is written to a
    tensor before it is read; vectors of a tile that ends early are then padded after they are computed, and not as they
    are read.

    ```mlir
    %p = linalg.generic ... ins(%b : tensor<?x?xi8>) { arith.sitofp } -> tensor<?x?xf32>
    %v = vector.transfer_read %p[%k, %j], %zero {in_bounds = [true]} : tensor<?x?xf32>, vector<16xf32>
    // becomes
    %w = vector.transfer_read %b[%k, %j], %none {in_bounds = [true]} : tensor<?x?xi8>, vector<16xi8>
    %v = arith.sitofp %w : vector<16xi8> to vector<16xf32>
    ```

    The handle stays valid. The op does not fail.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_COMPUTE_TD
