// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A chain of ops over the rows of a matrix: which they are, and what each of them does.

#ifndef TILEWRIGHT_LIB_ROWCHAIN_H
#define TILEWRIGHT_LIB_ROWCHAIN_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tilewright {

/// One op of a chain.
struct RowOp {
  enum Kind { Elements, Reduction, Scalars };

  mlir::linalg::GenericOp op;
  Kind kind;
  /// Of a reduction: what combines two numbers, and what it starts from.
  mlir::Operation *combiner = nullptr;
  mlir::Attribute start = {};
};

/// The ops that `last` needs, and itself, in the order of the block; or why they are no chain.
mlir::FailureOr<llvm::SmallVector<RowOp>> rowChain(mlir::linalg::GenericOp last, std::string &why);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_ROWCHAIN_H
