// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recompute.h"

using namespace mlir;

bool tilewright::dependsOn(Value value, Value variable) {
  if (value == variable)
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, variable); });
}

Value tilewright::recomputed(OpBuilder &builder, Value value, Value variable, IRMapping &map) {
  if (Value known = map.lookupOrNull(value))
    return known;
  if (!dependsOn(value, variable))
    return value;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    map.map(operand, recomputed(builder, operand, variable, map));
  builder.clone(*op, map);
  return map.lookup(value);
}
