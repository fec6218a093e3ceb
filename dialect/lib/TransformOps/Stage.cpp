// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;
using namespace tilewright;

/// The least shape that `value`, of which some extents may not be known, surely fits, or which `most` says that it
/// does; nothing when there is none.
static std::optional<SmallVector<int64_t>> boundsOf(Value value, std::optional<ArrayRef<int64_t>> most) {
  SmallVector<int64_t> bounds;
  for (auto [dim, size] : llvm::enumerate(cast<RankedTensorType>(value.getType()).getShape())) {
    FailureOr<int64_t> bound = size;
    if (ShapedType::isDynamic(size) && most)
      bound = (*most)[dim];
    else if (ShapedType::isDynamic(size))
      bound =
          ValueBoundsConstraintSet::computeConstantBound(presburger::BoundType::UB, {value, static_cast<int64_t>(dim)},
                                                         /*stopCondition=*/nullptr, /*closedUB=*/true);
    if (failed(bound))
      return std::nullopt;
    bounds.push_back(*bound);
  }
  return bounds;
}

/// A slice of the shape of `value`, or of its transpose, of a new tensor whose rows are `gap` elements longer.
static Value makeLonger(RewriterBase &rewriter, Location loc, Value value, SmallVector<int64_t> bounds, int64_t gap,
                        bool isTransposed) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, value);
  if (isTransposed) {
    std::swap(bounds[0], bounds[1]);
    std::swap(sizes[0], sizes[1]);
    type = type.clone({type.getDimSize(1), type.getDimSize(0)});
  }
  auto longerType = RankedTensorType::get({bounds[0], bounds[1] + gap}, type.getElementType());
  // No tensor.empty: a slice of one folds to a smaller one.
  Value longer = bufferization::AllocTensorOp::create(rewriter, loc, longerType, /*dynamicSizes=*/ValueRange());
  SmallVector<OpFoldResult> offsets(2, rewriter.getIndexAttr(0)), ones(2, rewriter.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(rewriter, loc, type, longer, offsets, sizes, ones);
}

DiagnosedSilenceableFailure StageOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                transform::ApplyToEachResultList &results,
                                                transform::TransformState &state) {
  auto op = dyn_cast<linalg::LinalgOp>(target);
  unsigned index = getOperand();
  auto type = op && index < target->getNumOperands() ? dyn_cast<RankedTensorType>(target->getOperand(index).getType())
                                                     : nullptr;
  bool isMatrix = type && type.getRank() == 2 && (!getMost() || getMost()->size() == 2);
  auto bounds = isMatrix ? boundsOf(target->getOperand(index), getMost()) : std::nullopt;
  if (!bounds) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "expected a linalg op whose operand number " << index
                                          << " is a two-dimensional tensor of a size that is known or bounded";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  OpOperand &operand = target->getOpOperand(index);
  bool isTransposed = getTransposed();
  if (isTransposed &&
      (op.isDpsInit(&operand) || !isa<linalg::MatmulOp, linalg::ContractOp, linalg::GenericOp>(target))) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "expected an input of a linalg.matmul, contract or generic to transpose";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  Location loc = target->getLoc();
  auto fill = op.isDpsInit(&operand) ? operand.get().getDefiningOp<linalg::FillOp>() : nullptr;
  Value former = fill ? fill.getDpsInitOperand(0)->get() : operand.get();

  rewriter.setInsertionPoint(target);
  Value staged = makeLonger(rewriter, loc, former, *bounds, getGap(), isTransposed);
  if (isTransposed) {
    auto transposed = linalg::TransposeOp::create(rewriter, loc, former, staged, ArrayRef<int64_t>{1, 0});
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    maps[index] = AffineMap::get(maps[index].getNumDims(), 0, {maps[index].getResult(1), maps[index].getResult(0)},
                                 rewriter.getContext());
    rewriter.modifyOpInPlace(target, [&] {
      operand.set(transposed->getResult(0));
      target->setAttr("indexing_maps", rewriter.getAffineMapArrayAttr(maps));
    });
    return DiagnosedSilenceableFailure::success();
  }
  Operation *start = fill ? linalg::FillOp::create(rewriter, loc, fill.getInputs(), staged).getOperation()
                          : linalg::CopyOp::create(rewriter, loc, former, staged).getOperation();
  rewriter.modifyOpInPlace(target, [&] { operand.set(start->getResult(0)); });
  // What is read from an empty tensor is nobody's but the op's users'.
  if (!op.isDpsInit(&operand) || former.getDefiningOp<tensor::EmptyOp>())
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
