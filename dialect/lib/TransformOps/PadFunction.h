// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is done to the elements of a matrix while it is packed: reads of vectors of an elementwise linalg.generic's
// result, which is never in memory.

#ifndef TILEWRIGHT_LIB_PADFUNCTION_H
#define TILEWRIGHT_LIB_PADFUNCTION_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>

namespace tilewright {

/// The elements of the source of a tensor.pad as a linalg.generic computes them.
class PadFunction {
public:
  /// The generic that `source`, or what it is a slice of, comes from; null when it comes from elsewhere.
  static mlir::linalg::GenericOp producerOf(mlir::Value source);
  /// Why `generic` is none that can be read from; empty when it can. With `transposed`, the elements of a column of its
  /// first input lie side by side.
  static llvm::StringRef unsupported(mlir::linalg::GenericOp generic, bool transposed);

  /// What groups are multiples of, and where blocks that are packed start.
  static constexpr int64_t groupUnit = 16;

  /// `sizes` are the rows and columns of `source`; padding takes the place of what is beyond them. Vectors along groups
  /// start at multiples of `unit`, or end before the next one.
  PadFunction(mlir::RewriterBase &rewriter, mlir::Location loc, mlir::Value source, std::array<mlir::Value, 2> sizes,
              mlir::Value padding, bool transposed, int64_t unit = groupUnit);

  /// `width` elements from `at` (row, column) on, along rows (0) or columns (1). They are all there with `inBounds`;
  /// the row or column across is there with `exists`.
  mlir::Value read(std::array<mlir::Value, 2> at, unsigned along, int64_t width, bool inBounds, bool exists);

  /// Whether the first input of `generic` has elements of four bits, which it reads in the order of `reorder_along_k`.
  static bool isOfCodes(mlir::linalg::GenericOp generic, int64_t block, int64_t ways);
  /// The elements of the block that begins at `at`, a word for each `ways` that lie side by side.
  mlir::Value words(std::array<mlir::Value, 2> at, int64_t block, int64_t ways);
  /// What the block that begins at `at` has for each of the sixteen codes, but for its factor.
  mlir::Value table(std::array<mlir::Value, 2> at);
  /// What all elements of the block that begins at `at` are multiplied by in the end, `lanes` times; null when by
  /// nothing.
  mlir::Value factor(std::array<mlir::Value, 2> at, int64_t lanes);
  static bool hasFactor(mlir::linalg::GenericOp generic) { return product(generic).factor != nullptr; }

private:
  static constexpr int64_t codeBits = 4;

  /// What depends on an element, and what it is multiplied by in the end; the latter null when by nothing.
  struct Product {
    mlir::Value element, factor;
  };
  static Product product(mlir::linalg::GenericOp generic);
  mlir::Value computed(std::array<mlir::Value, 2> at, int64_t count, mlir::Value wanted);

  std::array<mlir::Value, 2> inWhole(std::array<mlir::Value, 2> at);
  mlir::Value operandVector(mlir::OpOperand &operand, std::array<mlir::Value, 2> at, unsigned along, int64_t width,
                            bool inBounds);
  mlir::Value gathered(mlir::tensor::ExtractOp extract, std::array<mlir::Value, 2> at, int64_t width, bool inBounds);
  mlir::Value element(mlir::OpOperand &operand, std::array<mlir::Value, 2> at);
  mlir::Value groupVector(mlir::OpOperand &operand, std::array<mlir::Value, 2> at, unsigned along, int64_t width,
                          int64_t group);
  mlir::Value placeIn(mlir::AffineExpr result, std::array<mlir::Value, 2> at);
  static mlir::Type elementType(mlir::OpOperand &operand);

  mlir::RewriterBase &rewriter;
  mlir::Location loc;
  mlir::linalg::GenericOp generic;
  std::array<mlir::Value, 2> offsets, strides, sizes;
  mlir::Value padding;
  bool transposed;
  int64_t unit;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_PADFUNCTION_H
