// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed panels once they are buffers: allocations with one layout for those who write and those who read them.

#ifndef TILEWRIGHT_TRANSFORMOPS_PANEL_H
#define TILEWRIGHT_TRANSFORMOPS_PANEL_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <optional>

namespace tilewright {
/// An allocation that only transfers in bounds use, along its last dimensions.
struct Panel {
  mlir::memref::AllocOp alloc;
  mlir::SmallVector<mlir::vector::TransferReadOp> reads;
  mlir::SmallVector<mlir::vector::TransferWriteOp> writes;

  /// The panel that `alloc` is; nothing where it is used in another way.
  static std::optional<Panel> of(mlir::memref::AllocOp alloc);
};

/// A copy of `alloc` of another type.
mlir::memref::AllocOp reallocate(mlir::RewriterBase &rewriter, mlir::memref::AllocOp alloc, mlir::MemRefType type);

/// Reads a vector of `type` where `read` reads, from `base` at `indices`.
mlir::vector::TransferReadOp reread(mlir::RewriterBase &rewriter, mlir::vector::TransferReadOp read,
                                    mlir::VectorType type, mlir::Value base, mlir::ValueRange indices);
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_PANEL_H
