// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything of tilewright's that a context or a tool has to know.

#ifndef TILEWRIGHT_REGISTER_H
#define TILEWRIGHT_REGISTER_H

#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

namespace tilewright {
/// Adds the dialect and the transform extension to `registry`.
inline void registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<TilewrightDialect>();
  registerTransformExtension(registry);
}
} // namespace tilewright

#endif // TILEWRIGHT_REGISTER_H
