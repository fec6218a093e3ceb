// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transform operations transform.tilewright.*, and the extension that registers them.

#ifndef TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_H
#define TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformTypes.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
/// Whether a type is that of parameters that sizes come from: `!transform.param<i64>`.
bool isSizeParam(mlir::Type type);
} // namespace tilewright

#define GET_OP_CLASSES
#include "Tilewright/TransformOps/TilewrightTransformOps.h.inc"

namespace tilewright {
/// Adds every transform.tilewright.* operation to the transform dialect of contexts made from `registry`.
void registerTransformExtension(mlir::DialectRegistry &registry);
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_H
