// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop over blocks of a GPU's threads, each of which computes a tile of C in vectors as large as the tile.

#ifndef TILEWRIGHT_LIB_TRANSFORMOPS_BLOCKTILE_H
#define TILEWRIGHT_LIB_TRANSFORMOPS_BLOCKTILE_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"

namespace tilewright {

/// What the ops that share a block's tile among its threads are applied to:
///
///     forall (i, j) in blocks:                       // mapped to #gpu.block<y>, #gpu.block<x>
///         for k in 0..K step depth:                  // from sums of zero
///             sums = contract(a, b, sums)            // vectors of rows x depth and depth x columns
///         C[i * rows, j * columns] <- f(sums)
///
/// There may be several products of one a. Everything else in it is in vectors of these sizes too, or in numbers, reads
/// and writes slices from their first element on, and has no loop. In the function around it nothing but slices of
/// tensors is left.
struct BlockTile {
  mlir::scf::ForallOp blocks;
  mlir::scf::ForOp overK;
  int64_t rows = 0, columns = 0, depth = 0;
};

/// Finds it at `target`, a loop over blocks. On behalf of `op`; a silenceable failure says what is different, where,
/// and what to do.
mlir::DiagnosedSilenceableFailure findBlockTile(mlir::transform::TransformOpInterface op, mlir::Operation *target,
                                                BlockTile &found);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_TRANSFORMOPS_BLOCKTILE_H
