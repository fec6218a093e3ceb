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
  int64_t dimension;         // Which one of it is K.
  shard::AllGatherOp gather; // None where a process has all of K.
  SmallVector<int64_t> grid; // Processes along each axis of the gather.
  int64_t blocks = 1;        // In how many blocks K is.
};

/// The position of the dimension that a product sums over in an operand.
std::optional<int64_t> reducedDimension(linalg::LinalgOp product, OpOperand &operand) {
  SmallVector<unsigned> reduced;
  product.getReductionDims(reduced);
  AffineMap map = product.getMatchingIndexingMap(&operand);
  if (reduced.size() != 1 || !map.isProjectedPermutation())
    return std::nullopt;
  for (auto [position, result] : llvm::enumerate(map.getResults()))
    if (cast<AffineDimExpr>(result).getPosition() == reduced[0])
      return position;
  return std::nullopt;
}

std::optional<Multiplied> multiplied(linalg::LinalgOp product, OpOperand &operand, SymbolTableCollection &symbols) {
  std::optional<int64_t> dimension = reducedDimension(product, operand);
  if (!dimension || !cast<ShapedType>(operand.get().getType()).hasStaticShape())
    return std::nullopt;
  Multiplied found{operand.get(), *dimension, {}, {}};
  auto gather = operand.get().getDefiningOp<shard::AllGatherOp>();
  if (!gather || gather.getGatherAxis() != *dimension || !gather->hasOneUse())
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

/// Panel `number` of `count`, which the processes that have it broadcast.
Value panelOf(OpBuilder &builder, Location location, Multiplied operand, int64_t number, int64_t count) {
  auto type = cast<RankedTensorType>(operand.value.getType());
  int64_t inBlock = count / operand.blocks;
  int64_t width = type.getDimSize(operand.dimension) / inBlock;
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)), sizes,
      strides(type.getRank(), builder.getIndexAttr(1));
  for (int64_t size : type.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  offsets[operand.dimension] = builder.getIndexAttr(number % inBlock * width);
  sizes[operand.dimension] = builder.getIndexAttr(width);
  Value slice = operand.value;
  if (inBlock > 1)
    slice = tensor::ExtractSliceOp::create(builder, location, slice, offsets, sizes, strides);
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
      if (linalg::isaContractionOpInterface(op) && op.hasPureTensorSemantics())
        products.push_back(op);
    });
    for (linalg::LinalgOp product : products)
      split(product);
  }

  void split(linalg::LinalgOp product) {
    SymbolTableCollection symbols;
    SmallVector<Multiplied> operands;
    int64_t count = 1;
    for (OpOperand *operand : product.getDpsInputOperands()) {
      std::optional<Multiplied> found = multiplied(product, *operand, symbols);
      if (!found)
        return;
      count = std::lcm(count, found->blocks);
      operands.push_back(*found);
    }
    int64_t depth = cast<ShapedType>(product.getDpsInputs()[0].getType()).getDimSize(operands[0].dimension);
    if (count == 1 || depth % (count * multiple) != 0)
      return;
    int64_t finer = perBlock;
    while (depth % (count * multiple * finer) != 0)
      --finer;
    count *= finer;
    OpBuilder builder(product);
    Value sums = product.getDpsInits()[0];
    for (int64_t number = 0; number != count; ++number) {
      SmallVector<Value> given;
      for (const Multiplied &operand : operands)
        given.push_back(panelOf(builder, product.getLoc(), operand, number, count));
      given.push_back(sums);
      sums = mlir::clone(builder, product, product->getResultTypes(), given)->getResult(0);
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
