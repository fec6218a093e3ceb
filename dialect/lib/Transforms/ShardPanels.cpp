// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/Transforms/Passes.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

#include <numeric>

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_SHARDPANELS
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// An operand of a product: what is multiplied, or the block of it that a process has.
struct Multiplied {
  Value value;
  std::optional<int64_t> dimension; // Which one of it the panels cut.
  shard::AllGatherOp gather;        // None where a process has all of this dimension.
  SmallVector<int64_t> grid;        // Processes along each axis of the gather.
  int64_t blocks = 1;               // In how many blocks the dimension is.
};

/// The dimension of an operand that a loop of the product goes along.
std::optional<int64_t> dimensionOf(linalg::LinalgOp product, OpOperand &operand, unsigned loop) {
  for (auto [position, result] : llvm::enumerate(product.getMatchingIndexingMap(&operand).getResults()))
    if (cast<AffineDimExpr>(result).getPosition() == loop)
      return position;
  return std::nullopt;
}

/// The gather that an operand comes from, if nothing else takes what it gives.
shard::AllGatherOp gatherOf(OpOperand &operand) {
  auto gather = operand.get().getDefiningOp<shard::AllGatherOp>();
  return gather && gather->hasOneUse() ? gather : nullptr;
}

/// The loop along which operands are gathered: that of K, if any is, or else the first one.
std::optional<unsigned> gatheredLoop(linalg::LinalgOp product) {
  std::optional<unsigned> found;
  for (OpOperand *operand : product.getDpsInputOperands()) {
    shard::AllGatherOp gather = gatherOf(*operand);
    if (!gather)
      continue;
    AffineExpr along = product.getMatchingIndexingMap(operand).getResult(gather.getGatherAxis().getZExtValue());
    unsigned loop = cast<AffineDimExpr>(along).getPosition();
    if (product.getIteratorTypesArray()[loop] == utils::IteratorType::reduction)
      return loop;
    found = found.value_or(loop);
  }
  return found;
}

std::optional<Multiplied> multiplied(linalg::LinalgOp product, OpOperand &operand, unsigned loop,
                                     SymbolTableCollection &symbols) {
  if (!cast<ShapedType>(operand.get().getType()).hasStaticShape())
    return std::nullopt;
  Multiplied found{operand.get(), dimensionOf(product, operand, loop), {}, {}};
  shard::AllGatherOp gather = gatherOf(operand);
  if (!gather || !found.dimension || gather.getGatherAxis() != *found.dimension)
    return found;
  found.gather = gather;
  found.value = gather.getInput();
  shard::GridOp grid = shard::getGrid(gather, symbols);
  for (int16_t axis : gather.getGridAxes())
    found.grid.push_back(grid.getShape()[axis]);
  if (llvm::any_of(found.grid, ShapedType::isDynamic))
    return std::nullopt;
  found.blocks = std::accumulate(found.grid.begin(), found.grid.end(), int64_t(1), std::multiplies<>());
  return found;
}

/// Where a panel is: `width` entries along a dimension, from `start` on.
struct Slice {
  SmallVector<OpFoldResult> offsets, sizes, strides;

  Slice(OpBuilder &builder, Value of, int64_t dimension, int64_t start, int64_t width) {
    auto type = cast<RankedTensorType>(of.getType());
    for (auto [position, size] : llvm::enumerate(type.getShape())) {
      bool cut = int64_t(position) == dimension;
      offsets.push_back(builder.getIndexAttr(cut ? start : 0));
      sizes.push_back(builder.getIndexAttr(cut ? width : size));
      strides.push_back(builder.getIndexAttr(1));
    }
  }
};

/// Panel `number` of `count`, which the processes that have it broadcast.
Value panelOf(OpBuilder &builder, Location location, Multiplied operand, int64_t number, int64_t count) {
  if (!operand.dimension)
    return operand.value;
  int64_t inBlock = count / operand.blocks;
  int64_t width = cast<RankedTensorType>(operand.value.getType()).getDimSize(*operand.dimension) / inBlock;
  Value slice = operand.value;
  if (inBlock > 1) {
    Slice at(builder, slice, *operand.dimension, number % inBlock * width, width);
    slice = tensor::ExtractSliceOp::create(builder, location, slice, at.offsets, at.sizes, at.strides);
  }
  if (!operand.gather)
    return slice;
  SmallVector<int64_t> root(operand.grid.size());
  int64_t owner = number / inBlock;
  for (size_t axis = root.size(); axis-- > 0; owner /= operand.grid[axis])
    root[axis] = owner % operand.grid[axis];
  return shard::BroadcastOp::create(builder, location, slice.getType(), operand.gather.getGridAttr(),
                                    operand.gather.getGridAxesAttr(), slice, builder.getDenseI64ArrayAttr(root),
                                    ValueRange());
}

/// The product of some operands, added to `sums`.
Value productOf(OpBuilder &builder, linalg::LinalgOp product, SmallVector<Value> operands, Value sums) {
  operands.push_back(sums);
  return mlir::clone(builder, product, sums.getType(), operands)->getResult(0);
}

struct ShardPanels final : impl::ShardPanelsBase<ShardPanels> {
  using ShardPanelsBase::ShardPanelsBase;

  void runOnOperation() override {
    if (perBlock < 1 || multiple < 1) {
      getOperation()->emitError() << "per-block is " << perBlock << " and multiple " << multiple
                                  << "; expected numbers above zero";
      return signalPassFailure();
    }
    SmallVector<linalg::LinalgOp> products;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (linalg::isaContractionOpInterface(op) && op.hasPureTensorSemantics() && op.getNumReductionLoops() == 1)
        products.push_back(op);
    });
    for (linalg::LinalgOp product : products)
      split(product);
  }

  void split(linalg::LinalgOp product) {
    SymbolTableCollection symbols;
    std::optional<unsigned> loop = gatheredLoop(product);
    if (!loop)
      return;
    SmallVector<Multiplied> operands;
    int64_t count = 1;
    for (OpOperand *operand : product.getDpsInputOperands()) {
      std::optional<Multiplied> found = multiplied(product, *operand, *loop, symbols);
      if (!found)
        return;
      count = std::lcm(count, found->blocks);
      operands.push_back(*found);
    }
    bool summed = product.getIteratorTypesArray()[*loop] == utils::IteratorType::reduction;
    int64_t extent = product.getStaticLoopRanges()[*loop], deep = summed ? multiple : 1;
    if (count == 1 || extent == 0 || deep > extent / count || extent % (count * deep) != 0)
      return;
    int64_t units = extent / (count * deep), finer = std::min<int64_t>(perBlock, units);
    while (units % finer != 0)
      --finer;
    count *= finer;
    OpBuilder builder(product);
    Value sums = product.getDpsInits()[0];
    std::optional<int64_t> cut = dimensionOf(product, *product.getDpsInitOperand(0), *loop);
    // Each panel of C is filled when it is multiplied.
    auto fill = cut ? sums.getDefiningOp<linalg::FillOp>() : nullptr;
    if (fill)
      sums = fill.getOutputs()[0];
    for (int64_t number = 0; number != count; ++number) {
      SmallVector<Value> given;
      for (const Multiplied &operand : operands)
        given.push_back(panelOf(builder, product.getLoc(), operand, number, count));
      if (!cut) {
        sums = productOf(builder, product, given, sums);
        continue;
      }
      Slice at(builder, sums, *cut, number * (extent / count), extent / count);
      Value part = tensor::ExtractSliceOp::create(builder, product.getLoc(), sums, at.offsets, at.sizes, at.strides);
      if (fill)
        part = linalg::FillOp::create(builder, fill.getLoc(), fill.getInputs()[0], part).getResult(0);
      part = productOf(builder, product, given, part);
      sums = tensor::InsertSliceOp::create(builder, product.getLoc(), part, sums, at.offsets, at.sizes, at.strides);
    }
    product->getResult(0).replaceAllUsesWith(sums);
    product->erase();
    for (Multiplied &operand : operands)
      if (operand.gather)
        operand.gather.erase();
  }
};
} // namespace
} // namespace tilewright
