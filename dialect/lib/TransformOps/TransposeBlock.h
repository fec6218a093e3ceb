// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes a small block of elements in registers.

#ifndef TILEWRIGHT_TRANSFORMOPS_TRANSPOSEBLOCK_H
#define TILEWRIGHT_TRANSFORMOPS_TRANSPOSEBLOCK_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright {
/// The rows of a block, `group` at a time, of which `columns` are given: vectors of as many elements as it has rows, a
/// multiple of `group`. Each result has `columns.size()` elements, or with a group of several, so many rows of these.
llvm::SmallVector<mlir::Value> transposedBlock(mlir::OpBuilder &builder, mlir::Location loc,
                                               mlir::ArrayRef<mlir::Value> columns, int64_t group);
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_TRANSPOSEBLOCK_H
