// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "Panel.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tilewright;

/// The only user of `value`; null when there are more, or none.
static Operation *onlyUser(Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; }

/// The splat constant that `user` combines with `value` by exclusive-or; null when it does something else.
static SplatElementsAttr flippedBits(Operation *user, Value value) {
  auto flip = dyn_cast_or_null<arith::XOrIOp>(user);
  SplatElementsAttr bits;
  if (flip && flip.getLhs() == value)
    matchPattern(flip.getRhs(), m_Constant(&bits));
  return bits;
}

/// The op that every vector read from `panel` goes through first, when it is the same and can be moved to the writes.
static Operation *commonFirst(const Panel &panel, std::optional<Type> storage) {
  Operation *first = nullptr;
  for (vector::TransferReadOp read : panel.reads) {
    Operation *user = onlyUser(read.getResult());
    SplatElementsAttr bits = flippedBits(user, read.getResult());
    bool extends = user && storage && user->getNumResults() == 1 && extensionOf(user->getResult(0)) &&
                   getElementTypeOrSelf(user->getResult(0)) == *storage;
    if (!bits && !extends)
      return nullptr;
    if (!first)
      first = user;
    bool same = first->getName() == user->getName();
    if (same && bits)
      same = flippedBits(first, first->getOperand(0)).getSplatValue<Attribute>() == bits.getSplatValue<Attribute>();
    if (!same)
      return nullptr;
  }
  return first;
}

/// `first` done to `value`, which may be of another shape than its operand.
static Value repeat(RewriterBase &rewriter, Operation *first, Value value) {
  Location loc = value.getLoc();
  auto type = cast<VectorType>(value.getType());
  if (extensionOf(first->getResult(0))) {
    OperationState state(loc, first->getName(), value, type.clone(getElementTypeOrSelf(first->getResult(0))));
    return rewriter.create(state)->getResult(0);
  }
  auto bits = flippedBits(first, first->getOperand(0)).getSplatValue<Attribute>();
  Value mask = arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, bits));
  return arith::XOrIOp::create(rewriter, loc, value, mask);
}

static void rewrite(RewriterBase &rewriter, vector::TransferWriteOp write, Value vector, Value base,
                    ValueRange indices) {
  int64_t rank = cast<VectorType>(vector.getType()).getRank();
  vector::TransferWriteOp::create(rewriter, write.getLoc(), vector, base, indices, SmallVector<bool>(rank, true));
  rewriter.eraseOp(write);
}

/// Does to what is written what `first` does to what is read.
static Panel moveToWrites(RewriterBase &rewriter, Panel panel, Operation *first) {
  Type element = getElementTypeOrSelf(first->getResult(0));
  auto type = cast<MemRefType>(panel.alloc.getType().clone(element));
  memref::AllocOp alloc = reallocate(rewriter, panel.alloc, type);
  for (vector::TransferWriteOp write : panel.writes) {
    rewriter.setInsertionPoint(write);
    rewrite(rewriter, write, repeat(rewriter, first, write.getVector()), alloc, write.getIndices());
  }
  // The reads come last: `first` is the user of one of them.
  for (vector::TransferReadOp read : panel.reads) {
    rewriter.setInsertionPoint(read);
    Operation *user = *read->user_begin();
    Value value = reread(rewriter, read, cast<VectorType>(user->getResult(0).getType()), alloc, read.getIndices());
    rewriter.replaceOp(user, value);
    rewriter.eraseOp(read);
  }
  rewriter.eraseOp(panel.alloc);
  return *Panel::of(alloc);
}

static bool isMultipleOf(Value index, int64_t factor);

/// Whether the result is a multiple of `factor`, whatever its operands are or because each of them is.
static bool isMultipleOf(affine::AffineApplyOp apply, int64_t factor) {
  MLIRContext *context = apply.getContext();
  AffineMap map = apply.getAffineMap();
  if (map.getResult(0).isMultipleOf(factor))
    return true;
  SmallVector<AffineExpr> dims, symbols;
  for (unsigned i = 0; i < map.getNumDims(); ++i)
    dims.push_back(getAffineDimExpr(i, context) * factor);
  for (unsigned i = 0; i < map.getNumSymbols(); ++i)
    symbols.push_back(getAffineSymbolExpr(i, context) * factor);
  return llvm::all_of(apply.getMapOperands(), [&](Value operand) { return isMultipleOf(operand, factor); }) &&
         map.getResult(0).replaceDimsAndSymbols(dims, symbols).isMultipleOf(factor);
}

/// Whether `index` is a multiple of `factor`, as far as constants and loops show.
static bool isMultipleOf(Value index, int64_t factor) {
  if (std::optional<int64_t> constant = getConstantIntValue(index))
    return *constant % factor == 0;
  if (auto apply = index.getDefiningOp<affine::AffineApplyOp>())
    return isMultipleOf(apply, factor);
  if (auto select = index.getDefiningOp<arith::SelectOp>())
    return isMultipleOf(select.getTrueValue(), factor) && isMultipleOf(select.getFalseValue(), factor);
  auto argument = dyn_cast<BlockArgument>(index);
  if (!argument)
    return false;
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument != loop.getInductionVar())
    return false;
  return isMultipleOf(loop.getLowerBound(), factor) && isMultipleOf(loop.getStep(), factor);
}

namespace {
/// Interleaves groups of `depth` rows of a panel.
class Interleaving {
public:
  Interleaving(RewriterBase &rewriter, Panel panel, int64_t depth)
      : rewriter(rewriter), panel(std::move(panel)), depth(depth) {}

  /// Whether every tile is read in groups and every write is one group of rows.
  bool fits() {
    ArrayRef<int64_t> shape = panel.alloc.getType().getShape();
    int64_t rows = shape[shape.size() - 2], columns = shape.back();
    return rows % depth == 0 &&
           llvm::all_of(panel.writes,
                        [&](vector::TransferWriteOp write) {
                          VectorType type = write.getVectorType();
                          return type.getRank() == 2 && type.getDimSize(0) == depth && startsGroup(write.getIndices());
                        }) &&
           llvm::all_of(panel.reads, [&](vector::TransferReadOp read) {
             VectorType type = read.getVectorType();
             return type.getRank() == 2 && type.getDimSize(0) % depth == 0 && type.getDimSize(1) == columns &&
                    startsGroup(read.getIndices()) && isConstantIntValue(read.getIndices().back(), 0) &&
                    transposeOf(read);
           });
  }

  void apply() {
    MemRefType type = panel.alloc.getType();
    SmallVector<int64_t> shape(type.getShape());
    shape[shape.size() - 2] /= depth;
    shape.back() *= depth;
    memref::AllocOp alloc = reallocate(rewriter, panel.alloc, MemRefType::get(shape, type.getElementType()));
    for (vector::TransferWriteOp write : panel.writes) {
      rewriter.setInsertionPoint(write);
      SmallVector<Value> rows;
      for (int64_t row = 0; row < depth; ++row)
        rows.push_back(rowOf(write.getVector(), row));
      Location loc = write.getLoc();
      SmallVector<Value> parts = interleavedRegisters(rewriter, loc, rows);
      SmallVector<Value> at = scaled(loc, write.getIndices());
      for (Value part : ArrayRef(parts).drop_back()) {
        vector::TransferWriteOp::create(rewriter, loc, part, alloc, at, ArrayRef<bool>{true});
        at.back() = shifted(loc, at.back(), cast<VectorType>(part.getType()).getDimSize(0));
      }
      rewrite(rewriter, write, parts.back(), alloc, at);
    }
    for (vector::TransferReadOp read : panel.reads) {
      rewriter.setInsertionPoint(read);
      vector::TransposeOp transpose = transposeOf(read);
      VectorType tile = read.getVectorType();
      auto grouped = VectorType::get({tile.getDimSize(0) / depth, tile.getDimSize(1) * depth}, tile.getElementType());
      Value value = reread(rewriter, read, grouped, alloc, scaled(read.getLoc(), read.getIndices()));
      Operation *cast = *read->user_begin();
      rewriter.replaceOpWithNewOp<vector::ShapeCastOp>(transpose, transpose.getType(), value);
      rewriter.eraseOp(cast);
      rewriter.eraseOp(read);
    }
    rewriter.eraseOp(panel.alloc);
  }

protected:
  bool startsGroup(ValueRange indices) { return isMultipleOf(indices[indices.size() - 2], depth); }

  /// The transposition by which `read` is grouped into (rows / depth, columns, depth); null when it is not.
  vector::TransposeOp transposeOf(vector::TransferReadOp read) {
    auto cast = dyn_cast_or_null<vector::ShapeCastOp>(onlyUser(read.getResult()));
    auto transpose = cast ? dyn_cast_or_null<vector::TransposeOp>(onlyUser(cast.getResult())) : nullptr;
    VectorType tile = read.getVectorType();
    if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1} ||
        cast.getResultVectorType().getShape() !=
            ArrayRef<int64_t>{tile.getDimSize(0) / depth, depth, tile.getDimSize(1)})
      return nullptr;
    return transpose;
  }

  /// Row `row` of a vector that is about to be written: read as a row, where it comes from memory and surely exists
  /// there.
  Value rowOf(Value vector, int64_t row) {
    Location loc = vector.getLoc();
    Operation *op = vector.getDefiningOp();
    if (op && (extensionOf(vector) || flippedBits(op, op->getOperand(0))))
      return repeat(rewriter, op, rowOf(op->getOperand(0), row));
    while (auto insert = dyn_cast_or_null<vector::InsertStridedSliceOp>(op)) { // of one row
      if (insert.getSourceVectorType().getRank() == 1 && cast<IntegerAttr>(insert.getOffsets()[0]).getInt() == row)
        return insert.getValueToStore();
      op = insert.getDest().getDefiningOp();
    }
    auto read = dyn_cast_or_null<vector::TransferReadOp>(op);
    if (!read || !vector.hasOneUse() || !read.isDimInBounds(0) || read.getMask() ||
        !read.getPermutationMap().isMinorIdentity())
      return vector::ExtractOp::create(rewriter, loc, vector, row);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(read);
    SmallVector<Value> indices(read.getIndices());
    Value &first = indices[indices.size() - 2];
    first = shifted(loc, first, row);
    VectorType type = read.getVectorType();
    return vector::TransferReadOp::create(rewriter, loc, VectorType::get({type.getDimSize(1)}, type.getElementType()),
                                          read.getBase(), indices, read.getPadding(),
                                          ArrayRef<bool>{read.isDimInBounds(1)});
  }

  Value shifted(Location loc, Value index, int64_t by) {
    AffineExpr expr = rewriter.getAffineDimExpr(0) + by;
    return getValueOrCreateConstantIndexOp(
        rewriter, loc, affine::makeComposedFoldedAffineApply(rewriter, loc, expr, getAsOpFoldResult(index)));
  }

  SmallVector<Value> scaled(Location loc, ValueRange indices) {
    SmallVector<Value> result(indices);
    AffineExpr index = rewriter.getAffineDimExpr(0);
    auto apply = [&](AffineExpr expr, Value operand) {
      return getValueOrCreateConstantIndexOp(
          rewriter, loc, affine::makeComposedFoldedAffineApply(rewriter, loc, expr, getAsOpFoldResult(operand)));
    };
    Value &row = result[result.size() - 2], &column = result.back();
    row = apply(index.floorDiv(depth), row);
    column = apply(index * depth, column);
    return result;
  }

  RewriterBase &rewriter;
  Panel panel;
  int64_t depth;
};

/// Lets groups of elements of two rows of a panel alternate.
class Pairing : Interleaving {
public:
  /// A group has `width` elements.
  Pairing(RewriterBase &rewriter, Panel panel, int64_t width)
      : Interleaving(rewriter, std::move(panel), 2), width(width) {}

  /// Whether every tile is read in groups and every write is of whole groups of two rows.
  bool fits() {
    ArrayRef<int64_t> shape = panel.alloc.getType().getShape();
    return shape[shape.size() - 2] % 2 == 0 && shape.back() % width == 0 &&
           llvm::all_of(panel.writes,
                        [&](vector::TransferWriteOp write) {
                          VectorType type = write.getVectorType();
                          return type.getRank() == 2 && type.getDimSize(0) == 2 && type.getDimSize(1) % width == 0 &&
                                 startsGroup(write.getIndices()) && isMultipleOf(write.getIndices().back(), width);
                        }) &&
           llvm::all_of(panel.reads, [&](vector::TransferReadOp read) {
             return startsGroup(read.getIndices()) && isMultipleOf(read.getIndices().back(), width) && groupsOf(read);
           });
  }

  void apply() {
    MemRefType type = panel.alloc.getType();
    Type element = type.getElementType();
    SmallVector<int64_t> shape(type.getShape());
    shape[shape.size() - 2] /= 2;
    shape.back() *= 2;
    memref::AllocOp alloc = reallocate(rewriter, panel.alloc, MemRefType::get(shape, element));
    Type word = rewriter.getIntegerType(width * element.getIntOrFloatBitWidth());
    for (vector::TransferWriteOp write : panel.writes) {
      rewriter.setInsertionPoint(write);
      Location loc = write.getLoc();
      int64_t columns = write.getVectorType().getDimSize(1);
      SmallVector<Value> rows;
      for (int64_t row : {0, 1})
        rows.push_back(vector::BitCastOp::create(rewriter, loc, VectorType::get({columns / width}, word),
                                                 rowOf(write.getVector(), row)));
      Value pair = vector::BitCastOp::create(rewriter, loc, VectorType::get({2 * columns}, element),
                                             interleaved(rewriter, loc, rows));
      rewrite(rewriter, write, pair, alloc, scaled(loc, write.getIndices()));
    }
    for (vector::TransferReadOp read : panel.reads) {
      rewriter.setInsertionPoint(read);
      Location loc = read.getLoc();
      vector::ShapeCastOp groups = groupsOf(read);
      int64_t rows = read.getVectorType().getDimSize(0), columns = read.getVectorType().getDimSize(1);
      auto paired = VectorType::get({rows / 2, columns * 2}, element);
      Value value = reread(rewriter, read, paired, alloc, scaled(loc, read.getIndices()));
      value = vector::ShapeCastOp::create(rewriter, loc,
                                          VectorType::get({rows / 2, columns / width, 2, width}, element), value);
      value = vector::TransposeOp::create(rewriter, loc, value, ArrayRef<int64_t>{0, 2, 1, 3});
      rewriter.replaceOpWithNewOp<vector::ShapeCastOp>(groups, groups.getType(), value);
      rewriter.eraseOp(read);
    }
    rewriter.eraseOp(panel.alloc);
  }

private:
  /// How `read` is grouped into (rows, columns / width, width); null when it is not.
  vector::ShapeCastOp groupsOf(vector::TransferReadOp read) {
    auto cast = dyn_cast_or_null<vector::ShapeCastOp>(onlyUser(read.getResult()));
    VectorType tile = read.getVectorType();
    if (!cast || tile.getRank() != 2 || tile.getDimSize(0) % 2 != 0 || tile.getDimSize(1) % width != 0 ||
        cast.getResultVectorType().getShape() !=
            ArrayRef<int64_t>{tile.getDimSize(0), tile.getDimSize(1) / width, width})
      return nullptr;
    return cast;
  }

  int64_t width;
};
} // namespace

DiagnosedSilenceableFailure ConvertPanelsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  SmallVector<memref::AllocOp> allocs;
  target->walk([&](memref::AllocOp alloc) { allocs.push_back(alloc); });
  int64_t depth = getDepth();
  for (memref::AllocOp alloc : allocs) {
    std::optional<Panel> panel = Panel::of(alloc);
    if (!panel)
      continue;
    while (Operation *first = commonFirst(*panel, getStorage()))
      panel = moveToWrites(rewriter, *panel, first);
    Interleaving interleaving(rewriter, *panel, depth);
    Pairing pairing(rewriter, *panel, depth);
    if (depth > 1 && interleaving.fits())
      interleaving.apply();
    else if (getPairs() && pairing.fits())
      pairing.apply();
  }
  return DiagnosedSilenceableFailure::success();
}

void ConvertPanelsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
