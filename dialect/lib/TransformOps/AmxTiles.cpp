// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AmxTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;

std::optional<TileSplit> TileSplit::of(int64_t extent, int64_t limit) {
  if (extent <= limit)
    return TileSplit{1, extent};
  if (extent % limit != 0)
    return std::nullopt;
  return TileSplit{extent / limit, limit};
}

std::optional<TileSplit> TileSplit::even(int64_t extent, int64_t limit) {
  int64_t count = llvm::divideCeil(extent, limit);
  if (extent % count != 0)
    return std::nullopt;
  return TileSplit{count, extent / count};
}

std::optional<TileBlock> TileBlock::of(VectorType type) {
  if (type.getRank() != 2 || type.isScalable())
    return std::nullopt;
  std::optional<TileSplit> rows = TileSplit::even(type.getDimSize(0), amxRows);
  std::optional<TileSplit> columns = TileSplit::of(type.getDimSize(1), amxRowBytes * 8 / type.getElementTypeBitWidth());
  if (!rows || !columns)
    return std::nullopt;
  return TileBlock(type, *rows, *columns);
}

static Value further(OpBuilder &builder, Location loc, Value index, int64_t by) {
  if (by == 0)
    return index;
  return arith::AddIOp::create(builder, loc, index, arith::ConstantIndexOp::create(builder, loc, by));
}

TilePlace TilePlace::at(OpBuilder &builder, Location loc, int64_t row, int64_t column) const {
  TilePlace place = *this;
  Value &rowIndex = *std::prev(place.indices.end(), 2);
  rowIndex = further(builder, loc, rowIndex, row);
  place.indices.back() = further(builder, loc, place.indices.back(), column);
  return place;
}

/// Whether `transfer` moves rows of elements that lie side by side in a memref, though perhaps not all of them.
static bool isByRows(VectorTransferOpInterface transfer) {
  auto type = dyn_cast<MemRefType>(transfer.getShapedType());
  if (!type || type.getRank() < 2 || transfer.getMask() || !transfer.getPermutationMap().isMinorIdentity() ||
      transfer.getVectorType().getRank() != 2)
    return false;
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) && strides.back() == 1;
}

bool tilewright::isWhole(VectorTransferOpInterface transfer) {
  return isByRows(transfer) && !transfer.hasOutOfBoundsDim();
}

/// The block at whose start memory on the stack is allocated once, whatever loops run around `op`.
static Block *allocationBlock(Operation *op) {
  do
    op = op->getParentOp();
  while (!op->hasTrait<OpTrait::AutomaticAllocationScope>() || isa<scf::ForOp>(op));
  return &op->getRegion(0).front();
}

TilePlace TileMover::scratch(const TileBlock &block, Location loc) {
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  Block *start = allocationBlock(zero.getDefiningOp());
  Value &buffer = buffers[{start, block.vector}];
  if (!buffer) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(start);
    auto type = MemRefType::get(block.vector.getShape(), block.vector.getElementType());
    buffer = memref::AllocaOp::create(rewriter, loc, type, rewriter.getI64IntegerAttr(amxRowBytes));
  }
  return {buffer, {zero, zero}};
}

/// Calls `copy` in a loop over the rows of the accumulator, with the type of a row.
void TileMover::copyRows(const TileBlock &block, Location loc, llvm::function_ref<void(VectorType, Value)> copy) {
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  Value one = arith::ConstantIndexOp::create(rewriter, loc, 1);
  Value rows = arith::ConstantIndexOp::create(rewriter, loc, block.vector.getDimSize(0));
  auto loop = scf::ForOp::create(rewriter, loc, zero, rows, one);
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(loop.getBody()->getTerminator());
  copy(VectorType::get({1, block.vector.getDimSize(1)}, block.vector.getElementType()), loop.getInductionVar());
}

/// The indices of the row `row` of what `transfer` moves.
static SmallVector<Value> rowIndices(OpBuilder &builder, VectorTransferOpInterface transfer, Value row) {
  SmallVector<Value> indices(transfer.getIndices());
  Value &first = *std::prev(indices.end(), 2);
  first = arith::AddIOp::create(builder, transfer.getLoc(), first, row);
  return indices;
}

SmallVector<Value> TileMover::loadTiles(const TileBlock &block, TilePlace place, Location loc) {
  SmallVector<Value> tiles;
  for (int64_t row = 0; row < block.rows.count; ++row)
    for (int64_t column = 0; column < block.columns.count; ++column) {
      TilePlace tile = place.at(rewriter, loc, row * block.rows.size, column * block.columns.size);
      tiles.push_back(amx::TileLoadOp::create(rewriter, loc, block.tileType(), tile.base, tile.indices));
    }
  return tiles;
}

void TileMover::storeTiles(const TileBlock &block, ValueRange tiles, TilePlace place, Location loc) {
  for (auto [number, value] : llvm::enumerate(tiles)) {
    int64_t row = number / block.columns.count, column = number % block.columns.count;
    TilePlace tile = place.at(rewriter, loc, row * block.rows.size, column * block.columns.size);
    amx::TileStoreOp::create(rewriter, loc, tile.base, tile.indices, value);
  }
}

SmallVector<Value> TileMover::load(const TileBlock &block, Value vector, Location loc) {
  if (matchPattern(vector, m_AnyZeroFloat()) || matchPattern(vector, m_Zero())) {
    SmallVector<Value> tiles;
    for (int64_t i = 0; i < block.size(); ++i)
      tiles.push_back(amx::TileZeroOp::create(rewriter, loc, block.tileType()));
    return tiles;
  }
  auto read = vector.getDefiningOp<vector::TransferReadOp>();
  OpBuilder::InsertionGuard guard(rewriter);
  if (read)
    rewriter.setInsertionPoint(read);
  if (read && isWhole(read))
    return loadTiles(block, {read.getBase(), SmallVector<Value>(read.getIndices())}, loc);
  if (read && isByRows(read)) {
    TilePlace buffer = scratch(block, loc);
    copyRows(block, loc, [&](VectorType type, Value row) {
      Value part = vector::TransferReadOp::create(rewriter, loc, type, read.getBase(), rowIndices(rewriter, read, row),
                                                  read.getPermutationMapAttr(), read.getPadding(), /*mask=*/Value(),
                                                  read.getInBoundsAttr());
      vector::TransferWriteOp::create(rewriter, loc, part, buffer.base, ValueRange{row, buffer.indices.back()},
                                      ArrayRef<bool>{true, true});
    });
    return loadTiles(block, buffer, loc);
  }
  if (read)
    rewriter.setInsertionPointAfter(read);
  TilePlace buffer = scratch(block, loc);
  vector::TransferWriteOp::create(rewriter, loc, vector, buffer.base, buffer.indices, ArrayRef<bool>{true, true});
  return loadTiles(block, buffer, loc);
}

void TileMover::store(const TileBlock &block, ValueRange tiles, Value vector) {
  OpBuilder::InsertionGuard guard(rewriter);
  Type element = block.vector.getElementType();
  llvm::MapVector<Block *, SmallVector<Operation *>> others;
  auto stored = [&](Location loc) {
    TilePlace buffer = scratch(block, loc);
    storeTiles(block, tiles, buffer, loc);
    return buffer;
  };
  auto readBack = [&](const TilePlace &buffer, VectorType type, Value row, Location loc) -> Value {
    Value padding = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(element));
    return vector::TransferReadOp::create(rewriter, loc, type, buffer.base, ValueRange{row, buffer.indices.back()},
                                          padding, ArrayRef<bool>{true, true});
  };
  for (Operation *user : llvm::SmallSetVector<Operation *, 4>(vector.user_begin(), vector.user_end())) {
    Location loc = user->getLoc();
    rewriter.setInsertionPoint(user);
    auto write = dyn_cast<vector::TransferWriteOp>(user);
    if (write && isWhole(write)) {
      storeTiles(block, tiles, {write.getBase(), SmallVector<Value>(write.getIndices())}, loc);
      rewriter.eraseOp(write);
      continue;
    }
    if (!write || !isByRows(write)) {
      others[user->getBlock()].push_back(user);
      continue;
    }
    TilePlace buffer = stored(loc);
    copyRows(block, loc, [&](VectorType type, Value row) {
      vector::TransferWriteOp::create(rewriter, loc, readBack(buffer, type, row, loc), write.getBase(),
                                      rowIndices(rewriter, write, row), write.getPermutationMapAttr(),
                                      write.getInBoundsAttr());
    });
    rewriter.eraseOp(write);
  }
  for (auto &[_, users] : others) { // Users in one block read the sums back once.
    Operation *first = *llvm::min_element(users, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    rewriter.setInsertionPoint(first);
    TilePlace buffer = stored(first->getLoc());
    Value whole = readBack(buffer, block.vector, buffer.indices.front(), first->getLoc());
    for (Operation *user : users)
      rewriter.modifyOpInPlace(user, [&] { user->replaceUsesOfWith(vector, whole); });
  }
}
