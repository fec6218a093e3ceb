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

#endif // TILEWRIGHT_IR_TILEWRIGHT_H
