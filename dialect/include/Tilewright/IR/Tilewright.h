// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tilewright dialect: its attributes, and the names under which operations carry them.

#ifndef TILEWRIGHT_IR_TILEWRIGHT_H
#define TILEWRIGHT_IR_TILEWRIGHT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"

#include "Tilewright/IR/TilewrightDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "Tilewright/IR/TilewrightAttrs.h.inc"

namespace tilewright {
/// Whether an attribute says how a block's tile is shared among its threads.
bool isSharing(mlir::Attribute attribute);

/// What a decision of a schedule for a GPU says, by name, and its kind ("threads", "warp_groups"; of warps the
/// instructions' family) under "kind". Null for any other attribute.
mlir::DictionaryAttr decisionAsDictionary(mlir::Attribute attribute);
} // namespace tilewright

#endif // TILEWRIGHT_IR_TILEWRIGHT_H
