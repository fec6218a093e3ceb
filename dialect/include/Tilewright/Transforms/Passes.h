// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes tilewright-*.

#ifndef TILEWRIGHT_TRANSFORMS_PASSES_H
#define TILEWRIGHT_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/Pass.h"

namespace tilewright {
#define GEN_PASS_DECL
#include "Tilewright/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "Tilewright/Transforms/Passes.h.inc"
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMS_PASSES_H
