// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recompute.h"
#include "Tilewright/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_PREFETCHTILES
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// The loop that starts from what `read` reads, directly or through the branches around it; null when there is none.
scf::ForOp consumingLoop(vector::TransferReadOp read) {
  Value value = read.getResult();
  while (true) {
    if (!value.hasOneUse())
      return nullptr;
    Operation *user = *value.user_begin();
    if (auto loop = dyn_cast<scf::ForOp>(user))
      return llvm::is_contained(loop.getInitArgs(), value) ? loop : nullptr;
    auto branch = isa<scf::YieldOp>(user) ? dyn_cast<scf::IfOp>(user->getParentOp()) : nullptr;
    if (!branch)
      return nullptr;
    value = branch.getResult(value.getUses().begin()->getOperandNumber());
  }
}

/// Whether the tile's place is known before `loop`, where the prefetches go.
bool placeIsKnownBefore(vector::TransferReadOp read, scf::ForOp loop) {
  DominanceInfo dominance(loop->getParentOp());
  return dominance.properlyDominates(read.getBase(), loop) &&
         llvm::all_of(read.getIndices(), [&](Value index) { return dominance.properlyDominates(index, loop); });
}

/// The memref of which `read` reads a slice, which loops may have handed on.
Value wholeOf(vector::TransferReadOp read) {
  Value base = read.getBase();
  while (true) {
    if (auto slice = base.getDefiningOp<memref::SubViewOp>()) {
      base = slice.getSource();
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(base);
    auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : nullptr;
    if (!loop)
      return base;
    base = loop.getTiedLoopInit(argument)->get();
  }
}

/// The loop over columns that goes on to the tile on the right of the one that `read` reads, before it goes to other
/// rows; null where the next tile is below.
scf::ForOp loopOverColumns(vector::TransferReadOp read) {
  for (auto loop = read->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>()) {
    if (chooses(loop.getInductionVar(), read.getBase(), read.getIndices(), /*dim=*/0))
      return nullptr;
    if (chooses(loop.getInductionVar(), read.getBase(), read.getIndices(), /*dim=*/1))
      return loop;
  }
  return nullptr;
}

/// The steps of `loop` if it is one over strips of another one; otherwise 1.
int64_t stripsOf(scf::ForOp loop) {
  auto inner = loop.getBody()->getOps<scf::ForOp>();
  if (inner.empty() || (*inner.begin()).getInitArgs() != loop.getRegionIterArgs())
    return 1;
  std::optional<APInt> count = loop.getStaticTripCount();
  return count ? std::max<int64_t>(1, count->getSExtValue()) : 1;
}

struct PrefetchTiles final : impl::PrefetchTilesBase<PrefetchTiles> {
  using PrefetchTilesBase::PrefetchTilesBase;

  void runOnOperation() override {
    SmallVector<vector::TransferReadOp> reads;
    llvm::DenseMap<Value, int64_t> tallest;
    getOperation()->walk([&](vector::TransferReadOp read) {
      bool isTile = read.getVectorType().getRank() == 2 && isa<MemRefType>(read.getShapedType()) &&
                    read.getShapedType().getRank() == 2;
      if (!isTile || read.hasOutOfBoundsDim())
        return;
      reads.push_back(read);
      int64_t &rows = tallest[wholeOf(read)];
      rows = std::max(rows, read.getVectorType().getDimSize(0));
    });
    for (vector::TransferReadOp read : reads) {
      // Where all rows are one tile at most, code for fewer of them has none below it either.
      Value whole = wholeOf(read);
      int64_t rows = cast<MemRefType>(whole.getType()).getDimSize(0);
      if (!ShapedType::isDynamic(rows) && rows <= tallest[whole])
        continue;
      scf::ForOp loop = consumingLoop(read);
      if (loop && placeIsKnownBefore(read, loop))
        prefetchNext(read, loop);
    }
  }

  /// Prefetches the lines of the tile that follows the one that `read` reads: before `loop`, or spread over its strips,
  /// if they are no more than the tile has rows.
  void prefetchNext(vector::TransferReadOp read, scf::ForOp loop) {
    OpBuilder builder(loop);
    Location loc = read.getLoc();
    int64_t rows = read.getVectorType().getDimSize(0), columns = read.getVectorType().getDimSize(1);
    int64_t step = std::max<int64_t>(1, lineBytes * 8 / read.getVectorType().getElementTypeBitWidth());
    AffineExpr base, other;
    bindSymbols(builder.getContext(), base, other);
    auto applied = [&](AffineExpr expr, ArrayRef<OpFoldResult> symbols) -> Value {
      return affine::makeComposedAffineApply(builder, loc, expr, symbols);
    };
    Value row = applied(base + rows, {read.getIndices()[0]}), column = read.getIndices()[1];
    if (int64_t strips = stripsOf(loop); strips > 1 && strips <= rows) {
      if (scf::ForOp across = loopOverColumns(read)) {
        // After the last columns come the first ones of the rows below.
        Value next = applied(base + other, {across.getInductionVar(), across.getStep()});
        Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, next, across.getUpperBound());
        row = arith::SelectOp::create(builder, loc, more, read.getIndices()[0], row);
        Value first = applied(base - other, {column, across.getInductionVar()});
        column = arith::SelectOp::create(builder, loc, more, applied(base + columns, {column}), first);
      }
      builder.setInsertionPointToStart(loop.getBody());
      int64_t each = llvm::divideCeil(rows, strips);
      AffineExpr strip = base.floorDiv(*getConstantIntValue(loop.getStep()));
      row = applied(strip * each + other, {loop.getInductionVar(), row});
      rows = each;
    }
    for (int64_t down = 0; down < rows; ++down) {
      Value rowIndex = applied(base + down, {row});
      for (int64_t over = 0; over < columns; over += step)
        memref::PrefetchOp::create(builder, loc, read.getBase(), {rowIndex, applied(base + over, {column})},
                                   /*isWrite=*/true, /*localityHint=*/3, /*isDataCache=*/true);
    }
  }
};
} // namespace
} // namespace tilewright
