// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tilewright;

/// Whether `min` says how large the tile of `loop` is: no larger than its constant step, and inside of its bounds.
static bool isTileSize(affine::AffineMinOp min, scf::ForOp loop, int64_t step) {
  return llvm::is_contained(min.getOperands(), loop.getInductionVar()) &&
         llvm::any_of(min.getMap().getResults(), [&](AffineExpr result) {
           auto constant = dyn_cast<AffineConstantExpr>(result);
           return constant && constant.getValue() == step;
         });
}

namespace {
/// Builds the branches of one loop's body.
class TileCases {
public:
  TileCases(RewriterBase &rewriter, scf::ForOp loop, ArrayRef<affine::AffineMinOp> sizes, int64_t unit, int64_t most,
            bool whole, bool masked, bool once)
      : rewriter(rewriter), loc(loop.getLoc()), loop(loop), sizes(sizes), unit(unit), most(most), whole(whole),
        masked(masked), once(once) {}

  /// Gives the loop, of a tensor that it carries, the slice alone that its tiles are in, which is before `end`: whoever
  /// follows the tensor sees that what comes after meets none of them. Returns the tensor after the loop.
  Value keepApart(unsigned number, Value end) {
    Value result = loop.getResult(number), initial = loop.getInitArgs()[number];
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || !isConstantIntValue(loop.getLowerBound(), 0))
      return result;
    OpFoldResult offset(loop.getInductionVar());
    for (Operation *user : loop.getRegionIterArg(number).getUsers()) {
      auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
      if (!slice)
        continue;
      SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
      auto found = llvm::find(offsets, offset) - offsets.begin();
      if (found >= type.getRank() || !type.isDynamicDim(found))
        continue;
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(loop);
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, initial);
      SmallVector<OpFoldResult> zeros(type.getRank(), rewriter.getIndexAttr(0)),
          ones(type.getRank(), rewriter.getIndexAttr(1));
      sizes[found] = end;
      Value before = tensor::ExtractSliceOp::create(rewriter, loc, type, initial, zeros, sizes, ones);
      rewriter.modifyOpInPlace(loop, [&] { loop.getInitArgsMutable()[number].set(before); });
      rewriter.setInsertionPointAfter(loop);
      return tensor::InsertSliceOp::create(rewriter, loc, result, initial, zeros, sizes, ones);
    }
    return result;
  }

  /// Leaves whole units to the loop. What is left of a unit comes after it, one by one.
  void splitSingle() {
    rewriter.setInsertionPoint(loop);
    AffineExpr from, to;
    bindDims(rewriter.getContext(), from, to);
    Value end = affine::AffineApplyOp::create(rewriter, loc, AffineMap::get(2, 0, to - (to - from) % unit),
                                              ValueRange{loop.getLowerBound(), loop.getUpperBound()});
    rewriter.setInsertionPointAfter(loop);
    Value one = index(1);
    IRMapping mapping;
    auto rest = cast<scf::ForOp>(rewriter.clone(*loop, mapping));
    for (affine::AffineMinOp min : sizes)
      rewriter.replaceOp(mapping.lookup(min.getResult()).getDefiningOp(), one);
    rewriter.replaceAllUsesWith(loop.getResults(), rest.getResults());
    SmallVector<Value> carried;
    for (unsigned number = 0; number < loop.getNumResults(); ++number)
      carried.push_back(keepApart(number, end));
    rewriter.modifyOpInPlace(rest, [&] {
      rest.setLowerBound(end);
      rest.setStep(one);
      rest.getInitArgsMutable().assign(carried);
    });
    rewriter.modifyOpInPlace(loop, [&] { loop.setUpperBound(end); });
    whole = true;
    once = false;
    mayBeEmpty = true;
  }

  void build() {
    if (most == unit && whole) {
      rewriter.setInsertionPoint(sizes.front());
      for (affine::AffineMinOp min : sizes)
        rewriter.replaceOp(min, index(most));
      if (once)
        promote();
      return;
    }
    Value size = once ? extent() : even();
    // What comes before does not depend on the size.
    SmallVector<Operation *> moved;
    for (Operation &op : *loop.getBody())
      if (op.isBeforeInBlock(sizes.front()) || isa<scf::YieldOp>(op) || llvm::is_contained(sizes, &op))
        continue;
      else
        moved.push_back(&op);
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    rewriter.setInsertionPoint(yield);
    Value units = ceilDiv(size, unit);
    SmallVector<int64_t> cases;
    for (int64_t count = 1; count < most / unit; ++count)
      cases.push_back(count);
    auto branch = scf::IndexSwitchOp::create(rewriter, loc, yield.getOperandTypes(), units, cases, cases.size());
    for (auto [region, count] : llvm::zip_equal(branch.getCaseRegions(), cases))
      fill(region, size, count * unit, moved, yield);
    fill(branch.getDefaultRegion(), size, most, moved, yield);
    rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(branch.getResults()); });
    for (Operation *op : llvm::reverse(moved))
      rewriter.eraseOp(op);
    for (affine::AffineMinOp min : sizes)
      rewriter.eraseOp(min);
    if (once)
      promote();
  }

private:
  Value ceilDiv(Value value, int64_t by) {
    if (by == 1)
      return value;
    return affine::AffineApplyOp::create(rewriter, loc, rewriter.getAffineDimExpr(0).ceilDiv(by), value);
  }

  /// `value`, or one where the loop may have no tile.
  Value oneAtLeast(Value value) { return mayBeEmpty ? arith::MaxUIOp::create(rewriter, loc, value, index(1)) : value; }

  Value index(int64_t value) { return arith::ConstantIndexOp::create(rewriter, loc, value); }

  /// The size of the only tile, before the sizes in the loop.
  Value extent() {
    rewriter.setInsertionPoint(sizes.front());
    AffineExpr from, to;
    bindDims(rewriter.getContext(), from, to);
    return affine::AffineApplyOp::create(rewriter, loc, AffineMap::get(2, 0, to - from),
                                         ValueRange{loop.getLowerBound(), loop.getUpperBound()});
  }

  /// Puts the body in place of the loop, whose only step it is.
  void promote() {
    SmallVector<Value> arguments{loop.getLowerBound()};
    llvm::append_range(arguments, loop.getInitArgs());
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    SmallVector<Value> results(yield.getOperands());
    rewriter.inlineBlockBefore(loop.getBody(), loop, arguments);
    rewriter.replaceOp(loop, results);
    rewriter.eraseOp(yield);
  }

  /// Lets as many tiles share the extent evenly, and returns the size of one.
  Value even() {
    rewriter.setInsertionPoint(loop);
    AffineExpr from, to, offset;
    bindDims(rewriter.getContext(), from, to);
    Value extent = affine::AffineApplyOp::create(rewriter, loc, AffineMap::get(2, 0, (to - from).ceilDiv(unit)),
                                                 ValueRange{loop.getLowerBound(), loop.getUpperBound()});
    Value tiles = oneAtLeast(arith::CeilDivUIOp::create(rewriter, loc, extent, index(most / unit)));
    Value units = oneAtLeast(arith::CeilDivUIOp::create(rewriter, loc, extent, tiles));
    Value step = arith::MulIOp::create(rewriter, loc, units, index(unit));
    rewriter.modifyOpInPlace(loop, [&] { loop.setStep(step); });
    rewriter.setInsertionPoint(sizes.front());
    AffineExpr room, evened;
    bindDims(rewriter.getContext(), offset, to);
    bindSymbols(rewriter.getContext(), room, evened);
    auto map = AffineMap::get(1, 2, {room - rewriter.getAffineDimExpr(0), evened}, rewriter.getContext());
    return affine::AffineMinOp::create(rewriter, loc, map,
                                       ValueRange{loop.getInductionVar(), loop.getUpperBound(), step});
  }

  /// Fills a region for tiles of `bound` at most, and of more than a unit less.
  void fill(Region &region, Value size, int64_t bound, ArrayRef<Operation *> body, scf::YieldOp yield) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.createBlock(&region);
    if (unit == 1 || whole) {
      clone(index(bound), body, yield);
      return;
    }
    if (masked && (once || bound < most)) {
      clone(bounded(size, bound), body, yield);
      return;
    }
    Value full = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq, size, index(bound));
    auto branch = scf::IfOp::create(rewriter, loc, yield.getOperandTypes(), full, /*withElseRegion=*/true);
    scf::YieldOp::create(rewriter, loc, branch.getResults());
    for (auto [block, ragged] : {std::pair(branch.thenBlock(), false), std::pair(branch.elseBlock(), true)}) {
      rewriter.setInsertionPointToStart(block);
      if (!block->empty())
        rewriter.eraseOp(block->getTerminator());
      rewriter.setInsertionPointToEnd(block);
      clone(ragged ? bounded(size, bound) : index(bound), body, yield);
    }
  }

  /// `size`, which is known to be `bound` at most.
  Value bounded(Value size, int64_t bound) {
    auto map = AffineMap::get(1, 0, {rewriter.getAffineDimExpr(0), rewriter.getAffineConstantExpr(bound)},
                              rewriter.getContext());
    return affine::AffineMinOp::create(rewriter, loc, map, size);
  }

  /// Clones the body for a tile of that size.
  void clone(Value size, ArrayRef<Operation *> body, scf::YieldOp yield) {
    IRMapping mapping;
    for (affine::AffineMinOp min : sizes)
      mapping.map(min.getResult(), size);
    for (Operation *op : body)
      rewriter.clone(*op, mapping);
    SmallVector<Value> results;
    for (Value value : yield.getOperands())
      results.push_back(mapping.lookupOrDefault(value));
    scf::YieldOp::create(rewriter, loc, results);
  }

  RewriterBase &rewriter;
  Location loc;
  scf::ForOp loop;
  SmallVector<affine::AffineMinOp> sizes;
  int64_t unit, most;
  bool whole, masked, once, mayBeEmpty = false;
};
} // namespace

DiagnosedSilenceableFailure SpecializeTilesOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                          transform::ApplyToEachResultList &results,
                                                          transform::TransformState &state) {
  auto fail = [&](const Twine &why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  auto loop = dyn_cast<scf::ForOp>(target);
  std::optional<int64_t> step = loop ? getConstantIntValue(loop.getStep()) : std::nullopt;
  if (!step || *step % getUnit() != 0)
    return fail("expected an scf.for whose step is a constant and a multiple of " + Twine(getUnit()));
  SmallVector<affine::AffineMinOp> sizes;
  for (auto min : loop.getBody()->getOps<affine::AffineMinOp>())
    if (isTileSize(min, loop, *step))
      sizes.push_back(min);
  if (sizes.empty())
    return fail("expected a loop over tiles whose size is an affine.min of its step: tile with tile_using_for first");
  TileCases cases(rewriter, loop, sizes, getUnit(), *step, getWhole(), getMasked(), getOnce());
  if (getSingle() && !getWhole() && getUnit() > 1)
    cases.splitSingle();
  cases.build();
  return DiagnosedSilenceableFailure::success();
}

void SpecializeTilesOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
