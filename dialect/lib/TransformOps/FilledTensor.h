// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a filled tensor is read before anything else was written there.

#ifndef TILEWRIGHT_LIB_TRANSFORMOPS_FILLEDTENSOR_H
#define TILEWRIGHT_LIB_TRANSFORMOPS_FILLEDTENSOR_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright {

/// A read of the filled tensor, with those of the loops that carry the tensor to it that reduce.
struct FilledRead {
  mlir::vector::TransferReadOp read;
  llvm::SmallVector<mlir::scf::ForOp> reducing;
};

/// The reads of a filled tensor, or what stands in the way of knowing them all.
struct FillUses {
  llvm::SmallVector<FilledRead> reads;
  /// The first use that stands in the way, and why; null when there is none.
  mlir::Operation *unexpected = nullptr;
  llvm::StringRef reason;
};

/// Follows `tensor`, filled with `value`, through loops, slices and the tensors into which slices were inserted. With
/// `runs`, loops of unknown length are trusted to run.
FillUses followFill(mlir::Value tensor, mlir::Value value, bool runs);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_TRANSFORMOPS_FILLEDTENSOR_H
