// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Utils/Utils.h"

using namespace mlir;
using namespace tilewright;

/// The dimension of `value` that runs with the loop number `reduction`; nothing when it does not take part.
static std::optional<unsigned> axisOf(AffineMap map, unsigned reduction) {
  return map.getResultPosition(getAffineDimExpr(reduction, map.getContext()));
}

/// The first elements of `pad` along `axis`: as many as its source has, rounded up to a multiple of `multiple`.
static Value firstOf(RewriterBase &rewriter, tensor::PadOp pad, unsigned axis, int64_t multiple) {
  Location loc = pad.getLoc();
  AffineExpr extent = rewriter.getAffineDimExpr(0);
  RankedTensorType type = pad.getResultType();
  SmallVector<OpFoldResult> offsets(type.getRank(), rewriter.getIndexAttr(0)),
      strides(type.getRank(), rewriter.getIndexAttr(1)), sizes = tensor::getMixedSizes(rewriter, loc, pad.getResult());
  sizes[axis] = affine::makeComposedFoldedAffineApply(rewriter, loc, extent.ceilDiv(multiple) * multiple,
                                                      {tensor::getMixedSize(rewriter, loc, pad.getSource(), axis)});
  return tensor::ExtractSliceOp::create(rewriter, loc, pad.getResult(), offsets, sizes, strides);
}

DiagnosedSilenceableFailure TrimOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                               transform::ApplyToEachResultList &results,
                                               transform::TransformState &state) {
  auto fail = [&](const Twine &why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  auto op = dyn_cast<linalg::LinalgOp>(target);
  SmallVector<unsigned> reductions;
  if (op)
    op.getReductionDims(reductions);
  if (reductions.size() != 1)
    return fail("expected a linalg op with one reduction");
  SmallVector<std::pair<OpOperand *, unsigned>> reduced;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    std::optional<unsigned> axis = axisOf(op.getMatchingIndexingMap(operand), reductions.front());
    if (!axis)
      continue;
    if (!operand->get().getDefiningOp<tensor::PadOp>())
      return fail("operand number " + Twine(operand->getOperandNumber()) +
                  " is not padded: pad it first, with nofold, as packing does");
    reduced.emplace_back(operand, *axis);
  }
  rewriter.setInsertionPoint(target);
  rewriter.modifyOpInPlace(target, [&] {
    for (auto [operand, axis] : reduced)
      operand->set(firstOf(rewriter, operand->get().getDefiningOp<tensor::PadOp>(), axis, getMultiple()));
  });
  results.push_back(target);
  return DiagnosedSilenceableFailure::success();
}

void TrimOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::producesHandle(getOperation()->getOpResults(), effects);
  transform::modifiesPayload(effects);
}
