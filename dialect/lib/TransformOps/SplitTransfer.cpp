// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/Utils/Utils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tilewright;

static OpFoldResult sizeOf(OpBuilder &builder, Location loc, Value base, int64_t dim) {
  if (isa<TensorType>(base.getType()))
    return tensor::getMixedSize(builder, loc, base, dim);
  return memref::getMixedSize(builder, loc, base, dim);
}

/// The i1 that says whether every dimension of `transfer` that may leave its bounds stays inside.
static Value isFull(OpBuilder &builder, VectorTransferOpInterface transfer) {
  Location loc = transfer.getLoc();
  AffineExpr size, offset;
  bindSymbols(builder.getContext(), size, offset);
  Value full;
  for (auto [vectorDim, result] : llvm::enumerate(transfer.getPermutationMap().getResults())) {
    if (transfer.isDimInBounds(vectorDim))
      continue;
    // What is broadcast is in bounds, so this is a dimension.
    unsigned baseDim = cast<AffineDimExpr>(result).getPosition();
    OpFoldResult room = affine::makeComposedFoldedAffineApply(
        builder, loc, size - offset,
        {sizeOf(builder, loc, transfer.getBase(), baseDim), getAsOpFoldResult(transfer.getIndices()[baseDim])});
    VectorType type = transfer.getVectorType();
    Value extent = arith::ConstantIndexOp::create(builder, loc, type.getDimSize(vectorDim));
    if (type.getScalableDims()[vectorDim])
      extent = arith::MulIOp::create(builder, loc, extent, vector::VectorScaleOp::create(builder, loc));
    Value fits = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                       getValueOrCreateConstantIndexOp(builder, loc, room), extent);
    full = full ? arith::AndIOp::create(builder, loc, full, fits).getResult() : fits;
  }
  return full;
}

DiagnosedSilenceableFailure SplitTransferOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  auto transfer = dyn_cast<VectorTransferOpInterface>(target);
  if (!transfer) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "expected a vector.transfer_read or a vector.transfer_write, got '"
                                          << target->getName() << "'";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  if (!transfer.hasOutOfBoundsDim())
    return DiagnosedSilenceableFailure::success();
  if (isa<vector::MaskOp>(target->getParentOp())) {
    DiagnosedSilenceableFailure failure =
        emitSilenceableError()
        << "the transfer is inside a vector.mask, which holds one operation: lower the mask first";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  rewriter.setInsertionPoint(target);
  Location loc = target->getLoc();
  Value full = isFull(rewriter, transfer);
  auto branch = scf::IfOp::create(rewriter, loc, target->getResultTypes(), full, /*withElseRegion=*/true);
  SmallVector<bool> inBounds(transfer.getTransferRank(), true);
  for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
    bool isThen = block == branch.thenBlock();
    if (target->getNumResults() == 0)
      rewriter.setInsertionPoint(block->getTerminator());
    else
      rewriter.setInsertionPointToStart(block);
    Operation *copy = rewriter.clone(*target);
    if (isThen)
      copy->setAttr(transfer.getInBoundsAttrName(), rewriter.getBoolArrayAttr(inBounds));
    if (target->getNumResults() != 0)
      scf::YieldOp::create(rewriter, loc, copy->getResults());
  }
  rewriter.replaceOp(target, branch.getResults());
  return DiagnosedSilenceableFailure::success();
}

void SplitTransferOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
