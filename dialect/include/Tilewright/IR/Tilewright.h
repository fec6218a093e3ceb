// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tilewright dialect: its attributes, and the names under which operations carry them.

#ifndef TILEWRIGHT_IR_TILEWRIGHT_H
#define TILEWRIGHT_IR_TILEWRIGHT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Operation.h"

#include "Tilewright/IR/TilewrightDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "Tilewright/IR/TilewrightAttrs.h.inc"

namespace tilewright {
/// One of the dialect's attribute names: which attributes it may hold, and which operations may carry it.
struct Place {
  llvm::StringLiteral name;
  /// The attributes, for messages: "a #tilewright.target".
  llvm::StringLiteral kinds;
  bool (*holds)(mlir::Attribute);
  /// The operations, for messages: "only a module or a function is compiled for a target".
  llvm::StringLiteral carriers;
  bool (*carries)(mlir::Operation *);
};

/// Every name that the dialect knows.
llvm::ArrayRef<Place> places();

/// The name under which operations carry an attribute; null for an attribute that is none of the dialect's, and for a
/// number.
const Place *placeOf(mlir::Attribute attribute);

/// What a decision of a schedule says, by name, and its kind ("threads", "scalable_tiles"; of warps the instructions'
/// family) under "kind". Null for any other attribute.
mlir::DictionaryAttr decisionAsDictionary(mlir::Attribute attribute);
} // namespace tilewright

#endif // TILEWRIGHT_IR_TILEWRIGHT_H
