// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_LIB_IR_VERIFYPOSITIVE_H
#define TILEWRIGHT_LIB_IR_VERIFYPOSITIVE_H

#include "mlir/IR/Diagnostics.h"

namespace tilewright {
/// Checks that each of some named sizes is above zero.
inline llvm::LogicalResult verifyPositive(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                          llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizes) {
  for (auto [name, size] : sizes)
    if (size <= 0)
      return emitError() << name << ": expected a number above zero, got " << size;
  return mlir::success();
}
} // namespace tilewright

#endif // TILEWRIGHT_LIB_IR_VERIFYPOSITIVE_H
