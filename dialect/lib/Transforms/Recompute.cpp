// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recompute.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

bool tilewright::dependsOn(Value value, Value variable) {
  if (value == variable)
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, variable); });
}

bool tilewright::chooses(Value variable, Value base, ValueRange indices, unsigned dim) {
  if (dependsOn(indices[dim], variable))
    return true;
  auto slice = base.getDefiningOp<memref::SubViewOp>();
  for (; slice && slice.getSourceType().getRank() == slice.getType().getRank();
       slice = slice.getSource().getDefiningOp<memref::SubViewOp>())
    if (auto offset = dyn_cast<Value>(slice.getMixedOffsets()[dim]); offset && dependsOn(offset, variable))
      return true;
  return false;
}

/// Whether a value can be used where `builder` inserts: it is not of a loop further inside.
static bool isVisible(OpBuilder &builder, Value value) {
  return value.getParentRegion()->isAncestor(builder.getInsertionBlock()->getParent());
}

Value tilewright::recomputed(OpBuilder &builder, Value value, Value variable, IRMapping &map) {
  if (Value known = map.lookupOrNull(value))
    return known;
  if (!dependsOn(value, variable) && isVisible(builder, value))
    return value;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    map.map(operand, recomputed(builder, operand, variable, map));
  builder.clone(*op, map);
  return map.lookup(value);
}
