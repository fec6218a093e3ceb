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

/// The reduction of which each process keeps a block, if nothing else takes the product's sums.
shard::ReduceScatterOp scatterOf(linalg::LinalgOp product) {
  Value sums = product->getResult(0);
  return sums.hasOneUse() ? dyn_cast<shard::ReduceScatterOp>(*sums.user_begin()) : nullptr;
}

/// The sum that all processes get, if nothing else takes the product's part of it.
shard::AllReduceOp allReduceOf(linalg::LinalgOp product) {
  Value sums = product->getResult(0);
  auto found = sums.hasOneUse() ? dyn_cast<shard::AllReduceOp>(*sums.user_begin()) : nullptr;
  return found && found.getReduction() == shard::ReductionKind::Sum ? found : nullptr;
}

/// The loop along a dimension of C.
std::optional<unsigned> loopAlong(linalg::LinalgOp product, int64_t dimension) {
  AffineMap map = product.getMatchingIndexingMap(product.getDpsInitOperand(0));
  if (map.getNumResults() != 2)
    return std::nullopt;
  return cast<AffineDimExpr>(map.getResult(dimension)).getPosition();
}

Value sliced(OpBuilder &builder, Location location, Value of, const Slice &at) {
  return tensor::ExtractSliceOp::create(builder, location, of, at.offsets, at.sizes, at.strides);
}

Value inserted(OpBuilder &builder, Location location, Value part, Value into, const Slice &at) {
  return tensor::InsertSliceOp::create(builder, location, part, into, at.offsets, at.sizes, at.strides);
}

/// A tensor of the shape of another one, but `extent` entries along a dimension.
RankedTensorType resized(Value like, int64_t dimension, int64_t extent) {
  auto type = cast<RankedTensorType>(like.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dimension] = extent;
  return RankedTensorType::get(shape, type.getElementType());
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
    inParts(product, loop, symbols);
    shard::ReduceScatterOp scatter = scatterOf(product);
    if (!loop && scatter)
      loop = loopAlong(product, 1 - int64_t(scatter.getScatterAxis().getZExtValue()));
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
    std::optional<int64_t> cut = dimensionOf(product, *product.getDpsInitOperand(0), *loop);
    int64_t together = cut && scatter ? panelsTogether(scatter, *cut, symbols) : 0;
    // At least two reductions, so that one is on its way while panels of the next one are computed.
    int64_t finer = together > 0 ? inBlocks(extent, std::lcm(count, together), 1) : 0;
    if (together > 0 && std::lcm(count, together) * finer > together) {
      count = std::lcm(count, together) * finer;
    } else {
      together = 0;
      if (count == 1 || (finer = inBlocks(extent, count, deep)) == 0)
        return;
      count *= finer;
    }
    OpBuilder builder(product);
    Value sums = product.getDpsInits()[0];
    // Each panel of C is filled when it is multiplied.
    auto fill = cut ? sums.getDefiningOp<linalg::FillOp>() : nullptr;
    if (fill)
      sums = fill.getOutputs()[0];
    Location location = product.getLoc();
    int64_t width = extent / count;
    // `into` makes the tensor that a panel is added to, or, where there is a fill, that holds it.
    auto multiply = [&](int64_t number, llvm::function_ref<Value()> into) {
      SmallVector<Value> given;
      for (const Multiplied &operand : operands)
        given.push_back(panelOf(builder, location, operand, number, count));
      Value part = into();
      if (fill)
        part = linalg::FillOp::create(builder, fill.getLoc(), fill.getInputs()[0], part).getResult(0);
      return productOf(builder, product, given, part);
    };
    if (together > 0) {
      scattered(builder, scatter, *cut, together, count, width, [&](int64_t number, Value part, Slice at) {
        return multiply(number, [&] {
          return fill ? sliced(builder, location, part, at)
                      : sliced(builder, location, sums, {builder, sums, *cut, number * width, width});
        });
      });
    } else {
      for (int64_t number = 0; number != count; ++number) {
        if (!cut) {
          sums = multiply(number, [&] { return sums; });
          continue;
        }
        Slice at(builder, sums, *cut, number * width, width);
        Value made = multiply(number, [&] { return sliced(builder, location, sums, at); });
        sums = inserted(builder, location, made, sums, at);
      }
      product->getResult(0).replaceAllUsesWith(sums);
    }
    product->erase();
    for (Multiplied &operand : operands)
      if (operand.gather)
        operand.gather.erase();
  }

  /// Makes a sum that all processes get of one of which each keeps a block, and a gather of these: the same bytes, of
  /// which those of one panel are on their way while the next one is computed. Panels cut the other dimension of C than
  /// the blocks, along `loop` if that is known. Where extents allow no panels nothing changes.
  void inParts(linalg::LinalgOp product, std::optional<unsigned> loop, SymbolTableCollection &symbols) const {
    shard::AllReduceOp all = perBlock > 1 ? allReduceOf(product) : nullptr;
    auto type = all ? dyn_cast<RankedTensorType>(all.getType()) : nullptr;
    if (!type || type.getRank() != 2 || !type.hasStaticShape() || type != all.getInput().getType())
      return;
    int64_t size = shard::collectiveProcessGroupSize(all.getGridAxes(), shard::getGrid(all, symbols));
    for (int64_t dimension : {0, 1}) {
      bool other = !loop || loop == loopAlong(product, 1 - dimension);
      if (!other || ShapedType::isDynamic(size) || type.getDimSize(dimension) % size != 0 ||
          inBlocks(type.getDimSize(1 - dimension), 1, 1) < 2)
        continue;
      OpBuilder builder(all);
      IntegerAttr axis = builder.getIndexAttr(dimension);
      Value mine = shard::ReduceScatterOp::create(
          builder, all.getLoc(), resized(all.getInput(), dimension, type.getDimSize(dimension) / size),
          all.getGridAttr(), all.getGridAxesAttr(), all.getInput(), all.getReductionAttr(), axis);
      auto gathered =
          shard::AllGatherOp::create(builder, all.getLoc(), type, all.getGridAttr(), all.getGridAxesAttr(), mine, axis);
      all.getResult().replaceAllUsesWith(gathered.getResult());
      all->erase();
      return;
    }
  }

  /// Into how many panels each of `count` blocks is cut: as many as divide it into multiples of `deep`, `per-block` at
  /// most; 0 where there are no such blocks.
  int64_t inBlocks(int64_t extent, int64_t count, int64_t deep) const {
    if (extent == 0 || deep > extent / count || extent % (count * deep) != 0)
      return 0;
    int64_t units = extent / (count * deep), finer = std::min<int64_t>(perBlock, units);
    while (units % finer != 0)
      --finer;
    return finer;
  }

  /// How many panels along a dimension of C a reduction takes at once: one of the block of each process where it is the
  /// dimension that is scattered, otherwise one; 0 where the grid does not tell.
  static int64_t panelsTogether(shard::ReduceScatterOp scatter, int64_t cut, SymbolTableCollection &symbols) {
    if (int64_t(scatter.getScatterAxis().getZExtValue()) != cut)
      return 1;
    int64_t size = shard::collectiveProcessGroupSize(scatter.getGridAxes(), shard::getGrid(scatter, symbols));
    return ShapedType::isDynamic(size) ? 0 : size;
  }

  /// The gather of the blocks that a reduction leaves, if panels cut the other dimension of C.
  static shard::AllGatherOp gatherAfter(shard::ReduceScatterOp scatter, int64_t cut) {
    Value mine = scatter.getResult();
    auto gather = mine.hasOneUse() ? dyn_cast<shard::AllGatherOp>(*mine.user_begin()) : nullptr;
    bool same =
        gather && gather.getGridAxes() == scatter.getGridAxes() && gather.getGatherAxis() == scatter.getScatterAxis();
    return same && int64_t(gather.getGatherAxis().getZExtValue()) != cut ? gather : nullptr;
  }

  /// A copy of a collective for one panel.
  template <typename Op>
  static Value ofPanel(OpBuilder &builder, Op op, Value panel, int64_t cut, int64_t width) {
    IRMapping given;
    given.map(op.getInput(), panel);
    Operation *sent = builder.clone(*op, given);
    sent->getResult(0).setType(resized(op.getResult(), cut, width));
    return sent->getResult(0);
  }

  /// Replaces a reduction, and the gather after it, by those of some panels each: `panel` computes one, for which a
  /// tensor has a place. Nothing takes a reduction's result before the next panels are computed, nor a gather's before
  /// those after them.
  static void scattered(OpBuilder &builder, shard::ReduceScatterOp scatter, int64_t cut, int64_t together,
                        int64_t count, int64_t width, llvm::function_ref<Value(int64_t, Value, Slice)> panel) {
    Location location = scatter.getLoc();
    auto empty = [&](RankedTensorType type) -> Value {
      return tensor::EmptyOp::create(builder, location, type.getShape(), type.getElementType());
    };
    // Parts of one tensor: equal ones would be taken for one.
    Value parts = empty(resized(scatter.getInput(), cut, count * width));
    shard::AllGatherOp gather = gatherAfter(scatter, cut);
    SmallVector<Value> reduced, gathered;
    auto gatherLast = [&](size_t number) { gathered.push_back(ofPanel(builder, gather, reduced[number], cut, width)); };
    for (int64_t group = 0; group != count / together; ++group) {
      Value part = sliced(builder, location, parts, {builder, parts, cut, group * together * width, together * width});
      for (int64_t each = 0; each != together; ++each) {
        Slice at(builder, part, cut, each * width, width);
        Value made = panel(each * (count / together) + group, part, at);
        part = inserted(builder, location, made, part, at);
      }
      reduced.push_back(ofPanel(builder, scatter, part, cut, width));
      if (gather && group > 0)
        gatherLast(group - 1);
    }
    if (gather)
      gatherLast(reduced.size() - 1);
    Value old = gather ? gather.getResult() : scatter.getResult(), made = empty(cast<RankedTensorType>(old.getType()));
    for (auto [group, block] : llvm::enumerate(gather ? gathered : reduced))
      made = inserted(builder, location, block, made, {builder, made, cut, int64_t(group) * width, width});
    old.replaceAllUsesWith(made);
    if (gather)
      gather->erase();
    scatter->erase();
  }
};
} // namespace
} // namespace tilewright
