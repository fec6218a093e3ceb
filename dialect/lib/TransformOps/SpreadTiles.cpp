// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace tilewright;

/// The dimension along which a slice begins at `counter` and has `size` neighbors; nothing for any other slice.
static std::optional<unsigned> dimensionOf(OffsetSizeAndStrideOpInterface slice, Value counter, int64_t size) {
  std::optional<unsigned> found;
  for (auto [dim, offset] : llvm::enumerate(slice.getMixedOffsets())) {
    if (dyn_cast<Value>(offset) != counter)
      continue;
    if (found || !isConstantIntValue(slice.getMixedSizes()[dim], size) ||
        !isConstantIntValue(slice.getMixedStrides()[dim], 1))
      return std::nullopt;
    found = dim;
  }
  return found;
}

DiagnosedSilenceableFailure SpreadTilesOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                      transform::ApplyToEachResultList &results,
                                                      transform::TransformState &state) {
  auto refuse = [&](StringRef why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  auto loop = dyn_cast<scf::ForOp>(target);
  std::optional<int64_t> end = loop ? getConstantIntValue(loop.getUpperBound()) : std::nullopt;
  std::optional<int64_t> size = loop ? getConstantIntValue(loop.getStep()) : std::nullopt;
  if (!end || !size || !isConstantIntValue(loop.getLowerBound(), 0) || *end % *size != 0)
    return refuse("expected an scf.for from 0 over whole tiles of an extent that is known");
  Value counter = loop.getInductionVar();
  SmallVector<std::pair<Operation *, unsigned>> slices;
  for (Operation *user : counter.getUsers()) {
    auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(user);
    std::optional<unsigned> dim = slice ? dimensionOf(slice, counter, *size) : std::nullopt;
    if (!dim || !isa<tensor::ExtractSliceOp, tensor::InsertSliceOp>(user))
      return refuse("expected a counter at which slices of a tile's size begin, and nothing else");
    slices.emplace_back(user, *dim);
  }
  rewriter.setInsertionPointToStart(loop.getBody());
  OpFoldResult first = affine::makeComposedFoldedAffineApply(
      rewriter, loop.getLoc(), rewriter.getAffineDimExpr(0).floorDiv(*size), {OpFoldResult(counter)});
  for (auto [op, dim] : slices) {
    auto slice = cast<OffsetSizeAndStrideOpInterface>(op);
    SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(), strides = slice.getMixedStrides(),
                              sizes = slice.getMixedSizes();
    offsets[dim] = first;
    strides[dim] = rewriter.getIndexAttr(*end / *size);
    rewriter.setInsertionPoint(op);
    if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op))
      rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(op, extract.getType(), extract.getSource(), offsets, sizes,
                                                          strides);
    else
      rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(op, cast<tensor::InsertSliceOp>(op).getSource(),
                                                         cast<tensor::InsertSliceOp>(op).getDest(), offsets, sizes,
                                                         strides);
  }
  return DiagnosedSilenceableFailure::success();
}

void SpreadTilesOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
