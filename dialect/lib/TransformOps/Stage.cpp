// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tilewright;

/// A slice of the shape of `type` of a new tensor whose rows are `gap` elements longer.
static Value makeLonger(RewriterBase &rewriter, Location loc, RankedTensorType type, int64_t gap) {
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  auto longerType = RankedTensorType::get({rows, columns + gap}, type.getElementType());
  // No tensor.empty: a slice of one folds to a smaller one.
  Value longer = bufferization::AllocTensorOp::create(rewriter, loc, longerType, /*dynamicSizes=*/ValueRange());
  auto attr = [&](int64_t value) -> OpFoldResult { return rewriter.getIndexAttr(value); };
  SmallVector<OpFoldResult> offsets = {attr(0), attr(0)}, sizes = {attr(rows), attr(columns)},
                            ones = {attr(1), attr(1)};
  return tensor::ExtractSliceOp::create(rewriter, loc, type, longer, offsets, sizes, ones);
}

DiagnosedSilenceableFailure StageOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                transform::ApplyToEachResultList &results,
                                                transform::TransformState &state) {
  auto op = dyn_cast<linalg::LinalgOp>(target);
  unsigned index = getOperand();
  auto type = op && index < target->getNumOperands() ? dyn_cast<RankedTensorType>(target->getOperand(index).getType())
                                                     : nullptr;
  if (!type || type.getRank() != 2 || !type.hasStaticShape()) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "expected a linalg op whose operand number " << index
                                          << " is a two-dimensional tensor of static shape";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  Location loc = target->getLoc();
  OpOperand &operand = target->getOpOperand(index);
  auto fill = op.isDpsInit(&operand) ? operand.get().getDefiningOp<linalg::FillOp>() : nullptr;
  Value former = fill ? fill.getDpsInitOperand(0)->get() : operand.get();

  rewriter.setInsertionPoint(target);
  Value staged = makeLonger(rewriter, loc, type, getGap());
  Operation *start = fill ? linalg::FillOp::create(rewriter, loc, fill.getInputs(), staged).getOperation()
                          : linalg::CopyOp::create(rewriter, loc, former, staged).getOperation();
  rewriter.modifyOpInPlace(target, [&] { operand.set(start->getResult(0)); });
  if (!op.isDpsInit(&operand))
    return DiagnosedSilenceableFailure::success();

  rewriter.setInsertionPointAfter(target);
  OpResult result = op.getTiedOpResult(&operand);
  auto copy = linalg::CopyOp::create(rewriter, loc, result, former);
  rewriter.replaceAllUsesExcept(result, copy.getResult(0), copy);
  if (fill && fill->use_empty())
    rewriter.eraseOp(fill);
  return DiagnosedSilenceableFailure::success();
}

void StageOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
