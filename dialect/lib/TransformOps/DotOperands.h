// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands of a contraction in dot form, as the operations that lower it to instructions read them.

#ifndef TILEWRIGHT_TRANSFORMOPS_DOTOPERANDS_H
#define TILEWRIGHT_TRANSFORMOPS_DOTOPERANDS_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <optional>

namespace tilewright {
/// An operand of a contraction in dot form, before it is extended.
struct Narrow {
  mlir::Value source;
  bool isUnsigned;
};

/// The two operands of one contraction.
class DotOperands {
protected:
  DotOperands(mlir::RewriterBase &rewriter, mlir::vector::ContractionOp contract, mlir::Type element)
      : rewriter(rewriter), contract(contract), loc(contract.getLoc()), element(element) {}

  /// Finds what is extended, of elements of `element`; false when an operand is something else.
  bool findOperands();

  /// Whether an instruction with these rules for signs takes the operands.
  bool signsFit(bool unsignedFirst, bool bothUnsigned) const;

  /// The read of rank two that `value` is, its rows in bounds, when reading again here gives the same.
  mlir::vector::TransferReadOp rereadable(mlir::Value value, bool columnsInBounds = true);

  /// `width` elements of what `read` reads, from (row, column) of the vector.
  mlir::Value reread(mlir::vector::TransferReadOp read, int64_t row, int64_t column, int64_t width);

  mlir::RewriterBase &rewriter;
  mlir::vector::ContractionOp contract;
  mlir::Location loc;
  mlir::Type element;
  Narrow lhs, rhs;

private:
  std::optional<Narrow> narrowed(mlir::Value operand);
  std::optional<Narrow> narrowedConstant(mlir::Value operand);
};
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_DOTOPERANDS_H
