// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the operations on dot products share: how a contraction in dot form looks.

#ifndef TILEWRIGHT_TRANSFORMOPS_DOTFORM_H
#define TILEWRIGHT_TRANSFORMOPS_DOTFORM_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright {
/// The extension that defines `value`; null when there is none.
inline mlir::Operation *extensionOf(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  return mlir::isa_and_nonnull<mlir::arith::ExtFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp>(op) ? op : nullptr;
}

/// The maps of a product over (m, n, k).
llvm::SmallVector<mlir::AffineMap> productMaps(mlir::MLIRContext *context);

/// The maps of a product in dot form, over (m, n, ko, ki).
llvm::SmallVector<mlir::AffineMap> dotFormMaps(mlir::MLIRContext *context);

/// What `vectors` widen, all from one type: fewer bits are quicker to move. Empty when they do not.
llvm::SmallVector<mlir::Value> extendedAlike(mlir::ArrayRef<mlir::Value> vectors);

/// r0[0], r1[0], ..., r0[1], r1[1], ... of a power of two of `rows`.
mlir::Value interleaved(mlir::OpBuilder &builder, mlir::Location loc, mlir::ArrayRef<mlir::Value> rows);

/// The same in parts, one after the other. Of more than two registers of rows each part is one register: LLVM would
/// compute it from all rows again, of four rows of bytes by two shuffles and a blend, where two shuffles a register do.
llvm::SmallVector<mlir::Value> interleavedRegisters(mlir::OpBuilder &builder, mlir::Location loc,
                                                    mlir::ArrayRef<mlir::Value> rows);
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_DOTFORM_H
