// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PadFunction.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/Utils/Utils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tilewright;

/// Whether `read` is one of rows of what a prologue computes.
static bool isOfPrologue(vector::TransferReadOp read) {
  auto type = dyn_cast<RankedTensorType>(read.getBase().getType());
  int64_t rank = read.getVectorType().getRank();
  if (!type || type.getRank() != 2 || rank < 1 || rank > 2 || read.getMask() ||
      !read.getPermutationMap().isMinorIdentity())
    return false;
  linalg::GenericOp generic = PadFunction::producerOf(read.getBase());
  return generic && generic->hasAttr("own_batch") && PadFunction::unsupported(generic, /*transposed=*/false).empty();
}

/// What `read` reads, computed at the insertion point.
static Value computed(RewriterBase &rewriter, vector::TransferReadOp read) {
  Location loc = read.getLoc();
  Value base = read.getBase();
  std::array<Value, 2> sizes;
  for (unsigned dim : {0, 1})
    sizes[dim] = getValueOrCreateConstantIndexOp(rewriter, loc, tensor::getMixedSize(rewriter, loc, base, dim));
  PadFunction function(rewriter, loc, base, sizes, read.getPadding(), /*transposed=*/false);
  VectorType type = read.getVectorType();
  int64_t width = type.getShape().back();
  bool inBounds = read.isDimInBounds(type.getRank() - 1);
  Value row = read.getIndices()[0], column = read.getIndices()[1];
  if (type.getRank() == 1)
    return function.read({row, column}, /*along=*/1, width, inBounds, /*exists=*/true);
  Value rows = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    Value at = getValueOrCreateConstantIndexOp(
        rewriter, loc,
        affine::makeComposedFoldedAffineApply(rewriter, loc, rewriter.getAffineDimExpr(0) + i, getAsOpFoldResult(row)));
    // A `vector.insert` would be taken apart into its elements.
    rows = vector::InsertStridedSliceOp::create(
        rewriter, loc, function.read({at, column}, /*along=*/1, width, inBounds, read.isDimInBounds(0)), rows,
        ArrayRef<int64_t>{i, 0}, ArrayRef<int64_t>{1});
  }
  return rows;
}

DiagnosedSilenceableFailure ComputeReadsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                       transform::ApplyToEachResultList &results,
                                                       transform::TransformState &state) {
  SmallVector<vector::TransferReadOp> reads;
  target->walk([&](vector::TransferReadOp read) {
    if (isOfPrologue(read))
      reads.push_back(read);
  });
  for (vector::TransferReadOp read : reads) {
    rewriter.setInsertionPoint(read);
    rewriter.replaceOp(read, computed(rewriter, read));
  }
  return DiagnosedSilenceableFailure::success();
}

void ComputeReadsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
