// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values as they are in another step of a loop.

#ifndef TILEWRIGHT_LIB_RECOMPUTE_H
#define TILEWRIGHT_LIB_RECOMPUTE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright {

/// Whether `variable` takes part in what computes `value`.
bool dependsOn(mlir::Value value, mlir::Value variable);

/// Whether `variable` takes part in where indices into `base`, or slices on the way to it, are along a dimension.
bool chooses(mlir::Value variable, mlir::Value base, mlir::ValueRange indices, unsigned dim);

/// `value` as it is where the variables have what `map` maps them to: what computes it is cloned at the builder's
/// place.
mlir::Value recomputed(mlir::OpBuilder &builder, mlir::Value value, mlir::Value variable, mlir::IRMapping &map);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_RECOMPUTE_H
