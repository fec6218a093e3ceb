// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes tilewright-*.

#ifndef TILEWRIGHT_TRANSFORMS_PASSES_H
#define TILEWRIGHT_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace tilewright {
#define GEN_PASS_DECL
#include "Tilewright/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "Tilewright/Transforms/Passes.h.inc"

/// Writes the place of the step of a schedule that has just run into the locations of the ops below `root` that it
/// made, or whose attributes it changed. Without a step, before the first one, all ops count as known.
void markStep(mlir::Operation *root, std::optional<mlir::Location> step);

/// Removes from locations what markStep() remembers; the steps stay.
void forgetSeen(mlir::Operation *root);
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMS_PASSES_H
