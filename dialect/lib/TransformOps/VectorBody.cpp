// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "VectorBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;

bool tilewright::isElementwiseBody(Block *block, llvm::function_ref<bool(Operation &)> isOther) {
  return llvm::all_of(block->without_terminator(), [&](Operation &op) {
    return isa<arith::ConstantOp>(op) || (isOther && isOther(op)) ||
           (OpTrait::hasElementwiseMappableTraits(&op) && op.getNumResults() == 1);
  });
}

Value VectorBody::of(Value scalar) {
  if (Value vector = mapping.lookupOrNull(scalar))
    return vector;
  Value vector = vector::BroadcastOp::create(rewriter, loc, type(scalar.getType()), scalar);
  mapping.map(scalar, vector);
  return vector;
}

void VectorBody::repeat(Operation &op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = DenseElementsAttr::get(type(constant.getType()), constant.getValue());
    mapping.map(constant.getResult(), arith::ConstantOp::create(rewriter, loc, splat).getResult());
    return;
  }
  OperationState state(op.getLoc(), op.getName());
  for (Value operand : op.getOperands())
    state.addOperands(of(operand));
  state.addTypes(type(op.getResult(0).getType()));
  state.addAttributes(op.getAttrs());
  mapping.map(op.getResult(0), rewriter.create(state)->getResult(0));
}
