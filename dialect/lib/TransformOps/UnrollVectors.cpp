// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace tilewright;

using Shape = SmallVector<int64_t>;

namespace {
/// What the pieces of a row are: registers of `lanes` elements, or of `part` of them.
struct Widths {
  int64_t lanes, part;

  int64_t of(int64_t extent) const {
    if (extent % lanes == 0)
      return lanes;
    return extent > lanes && extent % part == 0 ? part : extent;
  }
};
} // namespace

/// The shape of the pieces of `type`; nothing when it is one piece already.
static std::optional<Shape> pieceShape(Type type, Widths widths) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || vector.getRank() < 2 || vector.isScalable())
    return std::nullopt;
  Shape shape(vector.getRank(), 1);
  shape.back() = widths.of(vector.getShape().back());
  if (vector.getShape() == ArrayRef<int64_t>(shape))
    return std::nullopt;
  return shape;
}

/// The piece of the iteration space of `contract` that one register of its accumulator covers.
static std::optional<Shape> pieceShape(vector::ContractionOp contract, Widths widths) {
  auto accumulator = dyn_cast<VectorType>(contract.getAccType());
  if (!accumulator || accumulator.isScalable())
    return std::nullopt;
  AffineMap map = contract.getIndexingMapsArray().back();
  Shape shape(map.getNumDims(), 1);
  auto last = cast<AffineDimExpr>(map.getResults().back());
  shape[last.getPosition()] = widths.of(accumulator.getShape().back());
  return shape;
}

namespace {
/// Splits the multi-dimensional vectors among the values that a loop carries or a branch yields.
class Pieces {
public:
  Pieces(RewriterBase &rewriter, Location loc, TypeRange types, Widths widths)
      : rewriter(rewriter), loc(loc), types(types.begin(), types.end()), widths(widths) {}

  bool none() const {
    return llvm::none_of(types, [&](Type type) { return pieceShape(type, widths).has_value(); });
  }

  SmallVector<Value> split(ValueRange values) {
    SmallVector<Value> pieces;
    for (Value value : values) {
      std::optional<Shape> shape = pieceShape(value.getType(), widths);
      if (!shape) {
        pieces.push_back(value);
        continue;
      }
      Shape strides(shape->size(), 1);
      for (const Shape &offsets : StaticTileOffsetRange(cast<VectorType>(value.getType()).getShape(), *shape))
        pieces.push_back(vector::ExtractStridedSliceOp::create(rewriter, loc, value, offsets, *shape, strides));
    }
    return pieces;
  }

  SmallVector<Value> join(ValueRange pieces) {
    SmallVector<Value> values;
    auto next = pieces.begin();
    for (Type type : types) {
      std::optional<Shape> shape = pieceShape(type, widths);
      if (!shape) {
        values.push_back(*next++);
        continue;
      }
      Shape strides(shape->size(), 1);
      Value whole = ub::PoisonOp::create(rewriter, loc, type);
      for (const Shape &offsets : StaticTileOffsetRange(cast<VectorType>(type).getShape(), *shape))
        whole = vector::InsertStridedSliceOp::create(rewriter, loc, *next++, whole, offsets, strides);
      values.push_back(whole);
    }
    return values;
  }

  void splitYield(Block &block) {
    auto yield = cast<scf::YieldOp>(block.getTerminator());
    rewriter.setInsertionPoint(yield);
    SmallVector<Value> pieces = split(yield.getOperands());
    rewriter.replaceOpWithNewOp<scf::YieldOp>(yield, pieces);
  }

private:
  RewriterBase &rewriter;
  Location loc;
  SmallVector<Type> types;
  Widths widths;
};
} // namespace

static void splitCarried(RewriterBase &rewriter, scf::ForOp loop, Widths widths) {
  Pieces pieces(rewriter, loop.getLoc(), loop.getResultTypes(), widths);
  if (pieces.none())
    return;
  rewriter.setInsertionPoint(loop);
  SmallVector<Value> inits = pieces.split(loop.getInitArgs());
  auto split =
      scf::ForOp::create(rewriter, loop.getLoc(), loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), inits);
  split->setAttrs(loop->getAttrs());
  Block *body = split.getBody();
  rewriter.setInsertionPointToStart(body);
  SmallVector<Value> arguments{split.getInductionVar()};
  llvm::append_range(arguments, pieces.join(split.getRegionIterArgs()));
  rewriter.mergeBlocks(loop.getBody(), body, arguments);
  pieces.splitYield(*body);
  rewriter.setInsertionPointAfter(split);
  rewriter.replaceOp(loop, pieces.join(split.getResults()));
}

static void splitYielded(RewriterBase &rewriter, scf::IfOp branch, Widths widths) {
  Pieces pieces(rewriter, branch.getLoc(), branch.getResultTypes(), widths);
  if (pieces.none())
    return;
  pieces.splitYield(*branch.thenBlock());
  pieces.splitYield(*branch.elseBlock());
  rewriter.setInsertionPoint(branch);
  auto split = scf::IfOp::create(rewriter, branch.getLoc(), branch.thenYield().getOperandTypes(), branch.getCondition(),
                                 /*withElseRegion=*/true);
  split->setAttrs(branch->getAttrs());
  for (auto [from, to] : {std::pair(&branch.getThenRegion(), &split.getThenRegion()),
                          std::pair(&branch.getElseRegion(), &split.getElseRegion())}) {
    rewriter.inlineRegionBefore(*from, *to, to->begin());
    rewriter.eraseBlock(&to->back());
  }
  rewriter.setInsertionPointAfter(split);
  rewriter.replaceOp(branch, pieces.join(split.getResults()));
}

DiagnosedSilenceableFailure UnrollVectorsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  Widths widths{static_cast<int64_t>(getLanes()), static_cast<int64_t>(getPart().value_or(getLanes()))};
  SmallVector<Operation *> carriers;
  target->walk([&](Operation *op) {
    if (isa<scf::ForOp, scf::IfOp>(op) && op != target)
      carriers.push_back(op);
  });
  for (Operation *op : carriers) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      splitCarried(rewriter, loop, widths);
    else
      splitYielded(rewriter, cast<scf::IfOp>(op), widths);
  }

  auto nativeShape = [widths](Operation *op) -> std::optional<Shape> {
    if (auto contract = dyn_cast<vector::ContractionOp>(op))
      return pieceShape(contract, widths);
    if (auto transfer = dyn_cast<VectorTransferOpInterface>(op))
      return pieceShape(transfer.getVectorType(), widths);
    if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1)
      return pieceShape(op->getResult(0).getType(), widths);
    return std::nullopt;
  };
  RewritePatternSet patterns(getContext());
  vector::populateVectorUnrollPatterns(patterns, vector::UnrollVectorOptions().setNativeShapeFn(nativeShape));
  // These fold a piece taken out of a whole that was just put together from the same pieces.
  vector::InsertStridedSliceOp::getCanonicalizationPatterns(patterns, getContext());
  vector::ExtractStridedSliceOp::getCanonicalizationPatterns(patterns, getContext());
  GreedyRewriteConfig config;
  config.setListener(static_cast<RewriterBase::Listener *>(rewriter.getListener()));
  if (failed(applyPatternsGreedily(target, std::move(patterns), config)))
    return emitDefiniteFailure() << "unrolling did not reach a fixed point";
  return DiagnosedSilenceableFailure::success();
}

void UnrollVectorsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
