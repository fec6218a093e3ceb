// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recompute.h"
#include "Tilewright/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_PREFETCHSTREAMS
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// The part of the cache that what was prefetched may fill until it is used.
constexpr int64_t kCacheShare = 4;
/// Times at most that the same is read in a row: each but the first prefetches in vain.
constexpr int64_t kMostRepeats = 8;
/// How near to bring a line: LLVM's localities of prefetcht0 and prefetcht1.
constexpr unsigned kIntoL1 = 3, kIntoL2 = 2;

/// The operand of the function that `base` is a part of; null when it is none.
BlockArgument operandOf(Value base) {
  while (auto slice = base.getDefiningOp<memref::SubViewOp>())
    base = slice.getSource();
  auto argument = dyn_cast<BlockArgument>(base);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? argument : nullptr;
}

/// The most that `value` can be; nothing when that is not known.
std::optional<int64_t> mostOf(Value value) {
  FailureOr<int64_t> bound = ValueBoundsConstraintSet::computeConstantBound(
      presburger::BoundType::UB, {value}, /*stopCondition=*/nullptr, /*closedUB=*/true);
  return failed(bound) ? std::nullopt : std::optional<int64_t>(*bound);
}

/// The steps of `loop`, at most; nothing when that is not known.
std::optional<int64_t> stepsOf(scf::ForOp loop) {
  if (std::optional<APInt> count = loop.getStaticTripCount())
    return count->getSExtValue();
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  std::optional<int64_t> bound = mostOf(loop.getUpperBound());
  if (!step || !bound || getConstantIntValue(loop.getLowerBound()) != 0)
    return std::nullopt;
  return llvm::divideCeil(*bound, *step);
}

int64_t bytesOf(ShapedType type) { return type.getNumElements() * type.getElementTypeBitWidth() / 8; }

/// The first of the two dimensions, rows and columns, of the matrices that the memref of `read` holds.
unsigned rowDim(vector::TransferReadOp read) { return read.getShapedType().getRank() - 2; }

/// The elements that `read` reads along each of those.
std::array<int64_t, 2> extents(vector::TransferReadOp read) {
  std::array<int64_t, 2> extent = {1, 1};
  for (auto [size, expr] : llvm::zip(read.getVectorType().getShape(), read.getPermutationMap().getResults()))
    if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && dim.getPosition() >= rowDim(read))
      extent[dim.getPosition() - rowDim(read)] = size;
  return extent;
}

/// Whether `variable` chooses the row at which `read` reads.
bool choosesRow(Value variable, vector::TransferReadOp read) {
  return chooses(variable, read.getBase(), read.getIndices(), rowDim(read));
}

/// The steps, at most, of a `loop` along a row that takes an even part of it in each, as wide as a read of `columns`.
std::optional<int64_t> stepsAlongRow(scf::ForOp loop, int64_t columns) {
  std::optional<int64_t> bound = mostOf(loop.getUpperBound());
  if (!bound || getConstantIntValue(loop.getLowerBound()) != 0)
    return std::nullopt;
  return llvm::divideCeil(*bound, columns);
}

/// Whether `read` reads something else in each step of `loop`.
bool moves(scf::ForOp loop, vector::TransferReadOp read) {
  auto chooses = [&](Value value) { return dependsOn(value, loop.getInductionVar()); };
  return chooses(read.getBase()) || llvm::any_of(read.getIndices(), chooses);
}

/// The loop a few steps ahead of which to prefetch, and how near.
struct Ahead {
  scf::ForOp loop;
  int64_t steps;
  unsigned locality = kIntoL2;
};

/// Whether something is computed with what `read` reads from a matrix, or one of several, in a loop.
bool isComputedWith(vector::TransferReadOp read) {
  return isa<MemRefType>(read.getShapedType()) && read.getShapedType().getRank() >= 2 && !read->use_empty() &&
         llvm::none_of(read->getUsers(), llvm::IsaPred<vector::TransferWriteOp>) && read->getParentOfType<scf::ForOp>();
}

/// The operand with which that is; null when there is none.
BlockArgument computedWith(vector::TransferReadOp read) {
  return isComputedWith(read) && rowDim(read) == 0 ? operandOf(read.getBase()) : nullptr;
}

struct PrefetchStreams final : impl::PrefetchStreamsBase<PrefetchStreams> {
  using PrefetchStreamsBase::PrefetchStreamsBase;

  void runOnOperation() override {
    SmallVector<std::pair<vector::TransferReadOp, Ahead>> reads;
    getOperation()->walk([&](vector::TransferReadOp read) {
      std::optional<Ahead> ahead = isStream(read) ? findAhead(read) : findRowsAhead(read);
      if (ahead)
        reads.push_back({read, *ahead});
    });
    for (auto &[read, ahead] : reads)
      prefetch(read, ahead);
  }

  /// Whether `read` takes part in a computation and goes through a large operand, each element once.
  bool isStream(vector::TransferReadOp read) {
    auto loop = read->getParentOfType<scf::ForOp>();
    BlockArgument operand = computedWith(read);
    // What is prefetched in blocks needs no more.
    if (!operand || llvm::any_of(operand.getUsers(), llvm::IsaPred<memref::PrefetchOp>))
      return false;
    // Along a row, the hardware foresees enough where the last-level cache answers.
    bool downRows = choosesRow(loop.getInductionVar(), read);
    // A line would be fetched again for each of the steps that read a part of it.
    if (!downRows && extents(read)[1] * read.getVectorType().getElementTypeBitWidth() < lineBytes * 8)
      return false;
    int64_t held = downRows ? int64_t(cacheBytes) : std::max<int64_t>(cacheBytes, heldBytes);
    auto type = cast<MemRefType>(operand.getType());
    if (!type.hasStaticShape() ? !open : bytesOf(type) <= held)
      return false;
    for (auto each = loop; each; each = each->getParentOfType<scf::ForOp>()) {
      if (moves(each, read))
        continue;
      std::optional<APInt> count = each.getStaticTripCount();
      if (!count && open)
        continue;
      if (!each->getParentOfType<scf::ForOp>() || !count || count->getSExtValue() > kMostRepeats)
        return false;
    }
    return true;
  }

  /// The outermost loop of which one step reads no more than may wait in the cache.
  std::optional<Ahead> findAhead(vector::TransferReadOp read) {
    std::optional<Ahead> ahead;
    int64_t bytes = bytesOf(read.getVectorType()), limit = cacheBytes / kCacheShare;
    for (auto loop = read->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>()) {
      // What repeats the read an unknown number of times brings nothing new.
      if (!stepsOf(loop) && !moves(loop, read))
        continue;
      int64_t steps = std::max<int64_t>(1, llvm::divideCeil(aheadBytes, bytes));
      if (steps * bytes > limit)
        break;
      ahead = Ahead{loop, steps};
      std::optional<int64_t> count = stepsOf(loop);
      if (!count && !choosesRow(loop.getInductionVar(), read) && extents(read)[0] == 1)
        count = stepsAlongRow(loop, extents(read)[1]);
      if (!count)
        break;
      bytes *= std::max<int64_t>(1, *count);
    }
    return ahead;
  }

  /// The innermost loop, where each step of it reads whole lines of other rows.
  std::optional<Ahead> findRowsAhead(vector::TransferReadOp read) {
    auto loop = read->getParentOfType<scf::ForOp>();
    // One that carries no sums reads those that it starts from.
    if (rowsAhead == 0 || !loop || loop->getNumResults() == 0 || !isComputedWith(read) ||
        !choosesRow(loop.getInductionVar(), read) ||
        extents(read)[1] * read.getVectorType().getElementTypeBitWidth() < lineBytes * 8)
      return std::nullopt;
    return Ahead{loop, rowsAhead, kIntoL1};
  }

  /// Prefetches, before `read`, the lines that it reads some steps later.
  void prefetch(vector::TransferReadOp read, Ahead ahead) {
    OpBuilder builder(read);
    Location loc = read.getLoc();
    AffineExpr base, step;
    bindSymbols(builder.getContext(), base, step);
    auto applied = [&](AffineExpr expr, ArrayRef<OpFoldResult> symbols) -> Value {
      return affine::makeComposedAffineApply(builder, loc, expr, symbols);
    };
    scf::ForOp loop = ahead.loop;
    Value variable = loop.getInductionVar();
    IRMapping map;
    map.map(variable, applied(base + step * ahead.steps, {variable, getAsOpFoldResult(loop.getStep())}));
    Value source = recomputed(builder, read.getBase(), variable, map);
    SmallVector<Value> start;
    for (Value index : read.getIndices())
      start.push_back(recomputed(builder, index, variable, map));
    auto [rows, columns] = extents(read);
    int64_t line = std::max<int64_t>(1, lineBytes * 8 / read.getVectorType().getElementTypeBitWidth());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; column += line) {
        SmallVector<Value> place = start;
        place[rowDim(read)] = applied(base + row, {start[rowDim(read)]});
        place.back() = applied(base + column, {start.back()});
        memref::PrefetchOp::create(builder, loc, source, place, /*isWrite=*/false, ahead.locality,
                                   /*isDataCache=*/true);
      }
  }
};
} // namespace
} // namespace tilewright
