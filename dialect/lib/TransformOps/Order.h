// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which the elements of a block along k are multiplied.

#ifndef TILEWRIGHT_LIB_ORDER_H
#define TILEWRIGHT_LIB_ORDER_H

#include "mlir/IR/AffineExpr.h"

namespace tilewright {

/// The place before of what is element `k` after `reorder_along_k` with `block` and `ways`.
mlir::AffineExpr reordered(mlir::AffineExpr k, int64_t block, int64_t ways);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_ORDER_H
