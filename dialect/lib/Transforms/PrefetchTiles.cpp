// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

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

  /// Prefetches, before `loop`, the lines of the tile that lies below the one that `read` reads.
  void prefetchNext(vector::TransferReadOp read, scf::ForOp loop) {
    OpBuilder builder(loop);
    Location loc = read.getLoc();
    int64_t rows = read.getVectorType().getDimSize(0), columns = read.getVectorType().getDimSize(1);
    int64_t step = std::max<int64_t>(1, lineBytes * 8 / read.getVectorType().getElementTypeBitWidth());
    AffineExpr base;
    bindSymbols(builder.getContext(), base);
    auto shifted = [&](Value index, int64_t by) -> Value {
      return affine::makeComposedAffineApply(builder, loc, base + by, {OpFoldResult(index)});
    };
    for (int64_t row = rows; row < 2 * rows; ++row) {
      Value rowIndex = shifted(read.getIndices()[0], row);
      for (int64_t column = 0; column < columns; column += step)
        memref::PrefetchOp::create(builder, loc, read.getBase(), {rowIndex, shifted(read.getIndices()[1], column)},
                                   /*isWrite=*/true, /*localityHint=*/3, /*isDataCache=*/true);
    }
  }
};
} // namespace
} // namespace tilewright
