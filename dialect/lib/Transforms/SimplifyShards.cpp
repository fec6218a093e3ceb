// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/Transforms/Passes.h"

#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_SIMPLIFYSHARDS
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
struct ScatterWhatIsSliced final : OpRewritePattern<shard::AllSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(shard::AllSliceOp slice, PatternRewriter &rewriter) const override {
    auto all = slice.getInput().getDefiningOp<shard::AllReduceOp>();
    if (!all || !all->hasOneUse() || all.getGridAttr() != slice.getGridAttr() ||
        all.getGridAxes() != slice.getGridAxes())
      return failure();
    rewriter.replaceOpWithNewOp<shard::ReduceScatterOp>(slice, slice.getType(), all.getGridAttr(),
                                                        all.getGridAxesAttr(), all.getInput(), all.getReductionAttr(),
                                                        slice.getSliceAxisAttr());
    rewriter.eraseOp(all);
    return success();
  }
};

/// Both branches yield a tensor full of the same number.
struct StartFromOneNumber final : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(scf::IfOp branch, PatternRewriter &rewriter) const override {
    if (branch.getNumResults() != 1 || branch.getElseRegion().empty() || !isMemoryEffectFree(branch))
      return failure();
    auto fillOf = [](scf::YieldOp yield) { return yield.getOperand(0).getDefiningOp<linalg::FillOp>(); };
    linalg::FillOp first = fillOf(branch.thenYield()), second = fillOf(branch.elseYield());
    if (!first || !second)
      return failure();
    Value number = first.getInputs()[0];
    if (number != second.getInputs()[0] || number.getParentRegion() == &branch.getThenRegion())
      return failure();
    auto type = cast<RankedTensorType>(branch.getType(0));
    if (!type.hasStaticShape())
      return failure();
    Value empty = tensor::EmptyOp::create(rewriter, branch.getLoc(), type.getShape(), type.getElementType());
    rewriter.replaceOpWithNewOp<linalg::FillOp>(branch, number, empty);
    return success();
  }
};

struct SimplifyShards final : impl::SimplifyShardsBase<SimplifyShards> {
  using SimplifyShardsBase::SimplifyShardsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ScatterWhatIsSliced, StartFromOneNumber>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
} // namespace tilewright
