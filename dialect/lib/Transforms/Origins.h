// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How locations tell where an op comes from: the step of a schedule that made it, and the loops around it.

#ifndef TILEWRIGHT_TRANSFORMS_ORIGINS_H
#define TILEWRIGHT_TRANSFORMS_ORIGINS_H

#include "mlir/IR/Location.h"

namespace tilewright {
/// The name of a location that wraps the place of a step: loc("step"("schedule.py":12:0)).
constexpr llvm::StringLiteral kStep = "step";
/// How the name of a location that wraps a loop's starts: loc("loop ic"(...)).
constexpr llvm::StringLiteral kLoop = "loop";
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMS_ORIGINS_H
