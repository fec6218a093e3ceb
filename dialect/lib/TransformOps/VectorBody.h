// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The body of an elementwise linalg.generic, done to vectors of elements.

#ifndef TILEWRIGHT_LIB_VECTORBODY_H
#define TILEWRIGHT_LIB_VECTORBODY_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright {

/// Whether every op in `block` but the terminator computes one number from numbers, or is one that `isOther` knows.
bool isElementwiseBody(mlir::Block *block, llvm::function_ref<bool(mlir::Operation &)> isOther = nullptr);

/// Repeats ops on numbers with vectors of one shape.
class VectorBody {
public:
  VectorBody(mlir::RewriterBase &rewriter, mlir::Location loc, llvm::ArrayRef<int64_t> shape)
      : rewriter(rewriter), loc(loc), shape(shape) {}

  mlir::VectorType type(mlir::Type element) { return mlir::VectorType::get(shape, element); }
  /// Lets `vector` stand for `scalar`.
  void map(mlir::Value scalar, mlir::Value vector) { mapping.map(scalar, vector); }
  /// The vector that stands for a value of the body; one that is the same everywhere is broadcast.
  mlir::Value of(mlir::Value scalar);
  /// `op` with vectors.
  void repeat(mlir::Operation &op);

private:
  mlir::RewriterBase &rewriter;
  mlir::Location loc;
  llvm::SmallVector<int64_t> shape;
  mlir::IRMapping mapping;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_VECTORBODY_H
