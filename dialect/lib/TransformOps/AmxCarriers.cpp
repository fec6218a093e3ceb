// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AmxCarriers.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// Follows accumulators from the contractions to where they come from and where they go.
class Search {
public:
  explicit Search(ArrayRef<vector::ContractionOp> contracts) {
    for (vector::ContractionOp contract : contracts) {
      add(contract.getAcc());
      add(contract.getResult());
    }
    while (!waiting.empty()) {
      Value value = waiting.pop_back_val();
      visitSource(value);
      for (OpOperand &use : value.getUses())
        visitUse(use);
    }
  }

  Carriers found;

private:
  void add(Value value) {
    if (seen.insert(value).second)
      waiting.push_back(value);
  }

  /// Result `number` of a loop or a branch, and all that flows into it.
  void addResult(Operation *op, unsigned number) {
    found[op].insert(number);
    add(op->getResult(number));
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      add(loop.getRegionIterArg(number));
      add(loop.getInitArgs()[number]);
    }
    for (Region &region : op->getRegions())
      add(region.front().getTerminator()->getOperand(number));
  }

  void visitSource(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (loop && argument != loop.getInductionVar())
        addResult(loop, argument.getArgNumber() - loop.getNumInductionVars());
      return;
    }
    Operation *op = value.getDefiningOp();
    if (isa<scf::ForOp, scf::IfOp>(op))
      addResult(op, cast<OpResult>(value).getResultNumber());
  }

  void visitUse(OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto loop = dyn_cast<scf::ForOp>(user))
      addResult(loop, use.getOperandNumber() - loop.getNumControlOperands());
    else if (isa<scf::YieldOp>(user) && isa<scf::ForOp, scf::IfOp>(user->getParentOp()))
      addResult(user->getParentOp(), use.getOperandNumber());
  }

  DenseSet<Value> seen;
  SmallVector<Value> waiting;
};
} // namespace

Carriers tilewright::findCarriers(ArrayRef<vector::ContractionOp> contracts) { return Search(contracts).found; }

SmallVector<Value> TileValues::split(Value vector, const TileBlock &block) {
  SmallVector<Type> types(block.size(), block.tileType());
  auto cast = UnrealizedConversionCastOp::create(rewriter, vector.getLoc(), types, vector);
  splits.push_back({cast, block});
  return cast.getResults();
}

Value TileValues::join(ValueRange tiles, const TileBlock &block, Location loc) {
  auto cast = UnrealizedConversionCastOp::create(rewriter, loc, TypeRange(block.vector), tiles);
  joins.push_back({cast, block});
  return cast.getResult(0);
}

SmallVector<Value> TileValues::splitAll(ValueRange values, ArrayRef<unsigned> carried) {
  SmallVector<Value> all;
  for (auto [number, value] : llvm::enumerate(values)) {
    if (llvm::is_contained(carried, number))
      llvm::append_range(all, split(value, *TileBlock::of(cast<VectorType>(value.getType()))));
    else
      all.push_back(value);
  }
  return all;
}

SmallVector<Value> TileValues::joinAll(ValueRange values, TypeRange types, ArrayRef<unsigned> carried, Location loc) {
  SmallVector<Value> all;
  for (auto [number, type] : llvm::enumerate(types)) {
    if (!llvm::is_contained(carried, number)) {
      all.push_back(values.front());
      values = values.drop_front();
      continue;
    }
    TileBlock block = *TileBlock::of(cast<VectorType>(type));
    all.push_back(join(values.take_front(block.size()), block, loc));
    values = values.drop_front(block.size());
  }
  return all;
}

/// Says to LLVM that a loop is not to be unrolled. A step has products enough; unrolled, its many addresses spill.
static void keepRolled(scf::ForOp loop) {
  MLIRContext *context = loop.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, /*disable=*/BoolAttr::get(context, true), {}, {}, {}, {}, {}, {});
  loop->setAttr("llvm.loop_annotation",
                LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}));
}

void TileValues::carry(Operation *carrier, ArrayRef<unsigned> carried) {
  Location loc = carrier->getLoc();
  for (Region &region : carrier->getRegions()) {
    auto yield = cast<scf::YieldOp>(region.front().getTerminator());
    rewriter.setInsertionPoint(yield);
    rewriter.replaceOpWithNewOp<scf::YieldOp>(yield, splitAll(yield.getOperands(), carried));
  }
  rewriter.setInsertionPoint(carrier);
  Operation *tiled;
  if (auto loop = dyn_cast<scf::ForOp>(carrier)) {
    // A body to be merged into has no terminator: the loop carries something, so none was made.
    auto made = scf::ForOp::create(rewriter, loc, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(),
                                   splitAll(loop.getInitArgs(), carried));
    rewriter.setInsertionPointToStart(made.getBody());
    SmallVector<Value> arguments{made.getInductionVar()};
    llvm::append_range(arguments, joinAll(made.getRegionIterArgs(), loop.getResultTypes(), carried, loc));
    rewriter.mergeBlocks(loop.getBody(), made.getBody(), arguments);
    tiled = made;
  } else {
    auto branch = cast<scf::IfOp>(carrier);
    auto made = scf::IfOp::create(rewriter, loc, branch.thenYield().getOperandTypes(), branch.getCondition(),
                                  /*withElseRegion=*/true);
    for (auto [from, to] : llvm::zip(branch->getRegions(), made->getRegions())) {
      rewriter.inlineRegionBefore(from, to, to.begin());
      rewriter.eraseBlock(&to.back());
    }
    tiled = made;
  }
  tiled->setAttrs(carrier->getAttrs());
  if (auto loop = dyn_cast<scf::ForOp>(tiled))
    keepRolled(loop);
  rewriter.setInsertionPointAfter(tiled);
  rewriter.replaceOp(carrier, joinAll(tiled->getResults(), carrier->getResultTypes(), carried, loc));
}

void TileValues::resolve() {
  TileMover mover(rewriter);
  for (auto [cast, block] : splits) {
    Value vector = cast.getInputs()[0];
    if (auto joined = vector.getDefiningOp<UnrealizedConversionCastOp>()) {
      rewriter.replaceOp(cast, joined.getInputs());
      continue;
    }
    rewriter.setInsertionPoint(cast);
    rewriter.replaceOp(cast, mover.load(block, vector, cast.getLoc()));
    if (Operation *read = vector.getDefiningOp(); read && isOpTriviallyDead(read))
      rewriter.eraseOp(read);
  }
  for (auto [cast, block] : joins) {
    mover.store(block, cast.getInputs(), cast.getResult(0));
    rewriter.eraseOp(cast);
  }
}
