// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PadFunction.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"
#include "TransposeBlock.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// A row is copied by straight-line code up to this many vectors, by a loop beyond.
constexpr int64_t maxUnrolledVectors = 4;

/// Rows that are read as one vector where the elements of a column lie side by side: with 32-bit elements a cache line.
constexpr int64_t blockRows = 16;
/// Columns of a block: what is interleaved at once. More take as long for each element, and much longer to compile.
constexpr int64_t blockColumns = 16;
/// All rows are one block up to this many: those of a register tile.
constexpr int64_t maxBlockRows = 32;

/// Where rows of the padded tensor come from: the whole of those of the source, part of each, part of them, part of
/// them but the whole of each, or nowhere.
enum class RowSource { FullRow, PartialRow, PartialGroup, PartialGroupOfFullRows, PaddingOnly };

/// Whether all columns exist.
bool hasColumns(RowSource kind) { return kind == RowSource::FullRow || kind == RowSource::PartialGroupOfFullRows; }

/// Whether all rows exist.
bool hasRows(RowSource kind) { return kind == RowSource::FullRow || kind == RowSource::PartialRow; }

/// Builds the loops that replace one tensor.pad.
class PadCopy {
public:
  /// `rows` are written at a time. With a `blockHeight`, columns lie side by side, and so many rows are read at a time.
  /// With `existing`, the columns of the source, vectors of those are moved apart from the ones after them. With
  /// `used`, no more columns than these are read from the copy.
  PadCopy(RewriterBase &rewriter, tensor::PadOp pad, Value padding, int64_t lanes, int64_t rows, int64_t blockHeight,
          Value existing, Value used)
      : rewriter(rewriter), loc(pad.getLoc()), source(pad.getSource()), padding(padding),
        columns(pad.getResultType().getDimSize(1)), lanes(lanes), rows(rows), blockHeight(blockHeight),
        existing(existing), used(used) {}

  Value index(int64_t value) { return arith::ConstantIndexOp::create(rewriter, loc, value); }

  /// for r in [from, to) step rows: dest[r:r+rows, :] = rows from r on
  Value copyRows(Value dest, Value from, Value to, RowSource kind) {
    int64_t step = inBlocks(kind) ? blockHeight : rows;
    return loop(dest, from, to, index(step), [&](Value row, Value carried) { return copyRow(carried, row, kind); });
  }

  /// Copies blocks, those of whole rows and columns by one code, and all others by one that reads under masks. Of the
  /// source, lines are gone along: in blocks one below the other they would be read again for the next ones, where they
  /// lie so that few of them fit into L1.
  ///
  ///     for c in columns step lanes: for r in whole rows: copy a block;  for r in other rows: copy a block under masks
  Value copyBlocks(Value dest, Value wholeRows, Value rowCount, Value columnCount) {
    Value height = index(blockHeight), end = index(columns);
    Value existingColumns = arith::MinUIOp::create(rewriter, loc, columnCount, end);
    if (used)
      end = arith::MinUIOp::create(rewriter, loc, end, used);
    present = {rowCount, columnCount};
    return loop(dest, index(0), end, index(lanes), [&](Value column, Value dest) {
      Value exist =
          arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ule, shifted(column, lanes), existingColumns);
      Value whole = arith::SelectOp::create(rewriter, loc, exist, wholeRows, index(0));
      for (auto [from, to, kind] :
           {std::tuple(index(0), whole, RowSource::FullRow), std::tuple(whole, rowCount, RowSource::PartialGroup)})
        dest = loop(dest, from, to, height, [&, kind = kind](Value row, Value carried) {
          return copyBlock(carried, row, column, lanes, kind);
        });
      return dest;
    });
  }

  /// Whether `copyBlocks` can.
  bool isOfBlocks() { return blockHeight > 0 && columns > 0 && columns % lanes == 0; }

  /// Whether all vectors of a row are in loops, those that exist in one of their own.
  bool splitsRows() { return existing && columns % lanes == 0 && columns > looped(); }

  /// Lets the elements be those that `given` computes, and not the source's.
  void compute(PadFunction given) { function.emplace(given); }

private:
  bool inBlocks(RowSource kind) { return blockHeight > 0 && kind != RowSource::PaddingOnly; }

  /// Columns above which vectors of a row are in a loop.
  int64_t looped() { return (blockHeight > 0 ? 1 : maxUnrolledVectors) * lanes; }

  Value loop(Value dest, Value from, Value to, Value step, llvm::function_ref<Value(Value, Value)> body) {
    auto forOp = scf::ForOp::create(rewriter, loc, from, to, step, dest);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(forOp.getBody());
    Value result = body(forOp.getInductionVar(), forOp.getRegionIterArg(0));
    scf::YieldOp::create(rewriter, loc, result);
    return forOp.getResult(0);
  }

  Value copyRow(Value dest, Value row, RowSource kind) {
    int64_t whole = columns / lanes * lanes;
    if (whole > (kind == RowSource::PaddingOnly ? maxUnrolledVectors * lanes : looped())) {
      Value end = index(whole);
      if (used)
        end = arith::MinUIOp::create(rewriter, loc, end, used);
      auto vectors = [&](Value from, Value to, RowSource kind) {
        dest = loop(dest, from, to, index(lanes),
                    [&](Value column, Value carried) { return copyVector(carried, row, column, lanes, kind); });
      };
      Value partial = index(0);
      if (existing && !hasColumns(kind) && kind != RowSource::PaddingOnly) {
        Value vector = index(lanes);
        Value count = arith::DivUIOp::create(rewriter, loc,
                                             arith::MinUIOp::create(rewriter, loc, existing, index(whole)), vector);
        Value split = arith::MulIOp::create(rewriter, loc, count, vector);
        vectors(partial, split, hasRows(kind) ? RowSource::FullRow : RowSource::PartialGroupOfFullRows);
        partial = split;
      }
      vectors(partial, end, kind);
    } else {
      for (int64_t column = 0; column < whole; column += lanes)
        dest = copyVector(dest, row, index(column), lanes, kind);
    }
    while (whole < columns) {
      // A power of two of columns can be interleaved.
      int64_t width = inBlocks(kind) ? llvm::bit_floor(static_cast<uint64_t>(columns - whole)) : columns - whole;
      dest = copyVector(dest, row, index(whole), width, kind);
      whole += width;
    }
    return dest;
  }

  Value copyVector(Value dest, Value row, Value column, int64_t width, RowSource kind) {
    if (inBlocks(kind))
      return copyBlock(dest, row, column, width, kind);
    SmallVector<int64_t> shape{width};
    SmallVector<bool> readInBounds{hasColumns(kind)}, writeInBounds{true};
    if (rows > 1) {
      shape.insert(shape.begin(), rows);
      readInBounds.insert(readInBounds.begin(), hasRows(kind));
      writeInBounds.push_back(true);
    }
    auto type = VectorType::get(shape, cast<RankedTensorType>(source.getType()).getElementType());
    auto map = AffineMapAttr::get(AffineMap::getMinorIdentityMap(2, shape.size(), rewriter.getContext()));
    Value vector;
    if (kind == RowSource::PaddingOnly)
      vector = vector::BroadcastOp::create(rewriter, loc, type, padding);
    else if (function)
      vector = computeRows(type, row, column, kind);
    else
      vector = vector::TransferReadOp::create(rewriter, loc, type, source, ValueRange{row, column}, map, padding,
                                              /*mask=*/Value(), rewriter.getBoolArrayAttr(readInBounds));
    return vector::TransferWriteOp::create(rewriter, loc, vector, dest, ValueRange{row, column}, map,
                                           rewriter.getBoolArrayAttr(writeInBounds))
        .getResult();
  }

  /// A vector of as many rows as are moved in one step, of what is computed.
  Value computeRows(VectorType type, Value row, Value column, RowSource kind) {
    bool inBounds = hasColumns(kind), exists = hasRows(kind);
    int64_t width = type.getShape().back();
    if (rows == 1)
      return function->read({row, column}, /*along=*/1, width, inBounds, exists);
    Value vector = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    for (int64_t i = 0; i < rows; ++i)
      vector = vector::InsertStridedSliceOp::create( // a `vector.insert` would be taken apart into its elements
          rewriter, loc, function->read({shifted(row, i), column}, /*along=*/1, width, inBounds, exists), vector,
          ArrayRef<int64_t>{i, 0}, ArrayRef<int64_t>{1});
    return vector;
  }

  Value shifted(Value value, int64_t by) {
    return getValueOrCreateConstantIndexOp(rewriter, loc,
                                           affine::makeComposedFoldedAffineApply(rewriter, loc,
                                                                                 rewriter.getAffineDimExpr(0) + by,
                                                                                 getAsOpFoldResult(value)));
  }

  /// The elements of a column in the rows of a block.
  Value readColumn(Value row, Value column, RowSource kind) {
    if (function)
      return function->read({row, column}, /*along=*/0, blockHeight, hasRows(kind), hasColumns(kind));
    Type element = cast<RankedTensorType>(source.getType()).getElementType();
    AffineExpr r, c;
    bindDims(rewriter.getContext(), r, c);
    auto type = VectorType::get({blockHeight}, element);
    if (present && !hasColumns(kind)) { // Under a mask of nothing, nothing is read.
      Value left = arith::SubIOp::create(rewriter, loc, present->first, row);
      Value exists = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ult, column, present->second);
      Value mask =
          vector::CreateMaskOp::create(rewriter, loc, type.clone(rewriter.getI1Type()),
                                       ValueRange{arith::SelectOp::create(rewriter, loc, exists, left, index(0))});
      return vector::TransferReadOp::create(rewriter, loc, type, source, ValueRange{row, column},
                                            AffineMapAttr::get(AffineMap::get(2, 0, r)), padding, mask,
                                            rewriter.getBoolArrayAttr({true}));
    }
    if (hasColumns(kind))
      return vector::TransferReadOp::create(rewriter, loc, type, source, ValueRange{row, column},
                                            AffineMapAttr::get(AffineMap::get(2, 0, r)), padding, /*mask=*/Value(),
                                            rewriter.getBoolArrayAttr({hasRows(kind)}));
    // A column that may not exist is out of bounds along a dimension of the vector.
    auto one = VectorType::get({1, blockHeight}, element);
    Value read =
        vector::TransferReadOp::create(rewriter, loc, one, source, ValueRange{row, column},
                                       AffineMapAttr::get(AffineMap::get(2, 0, {c, r}, rewriter.getContext())), padding,
                                       /*mask=*/Value(), rewriter.getBoolArrayAttr({false, hasRows(kind)}));
    return vector::ShapeCastOp::create(rewriter, loc, type, read);
  }

  /// Reads `width` columns of a block of rows and writes its rows.
  Value copyBlock(Value dest, Value row, Value column, int64_t width, RowSource kind) {
    SmallVector<Value> read;
    for (int64_t i = 0; i < width; ++i)
      read.push_back(readColumn(row, shifted(column, i), kind));
    for (auto [i, piece] : llvm::enumerate(transposedBlock(rewriter, loc, read, rows))) {
      SmallVector<bool> inBounds(cast<VectorType>(piece.getType()).getRank(), true);
      dest = vector::TransferWriteOp::create(rewriter, loc, piece, dest, ValueRange{shifted(row, i * rows), column},
                                             inBounds)
                 .getResult();
    }
    return dest;
  }

  RewriterBase &rewriter;
  Location loc;
  Value source, padding;
  int64_t columns, lanes, rows, blockHeight;
  Value existing, used;
  /// The rows and columns of the source, where reads under masks of them are cheap.
  std::optional<std::pair<Value, Value>> present;
  std::optional<PadFunction> function;
};
} // namespace

/// The tensor that the copy writes into: the slice into which `pad` is inserted, or a new one.
static Value destinationOf(RewriterBase &rewriter, tensor::PadOp pad) {
  RankedTensorType type = pad.getResultType();
  if (pad->hasOneUse()) {
    auto insert = dyn_cast<tensor::InsertSliceOp>(*pad->user_begin());
    if (insert && insert.getSource() == pad.getResult()) {
      rewriter.setInsertionPoint(insert);
      return tensor::ExtractSliceOp::create(rewriter, pad.getLoc(), type, insert.getDest(), insert.getMixedOffsets(),
                                            insert.getMixedSizes(), insert.getMixedStrides());
    }
  }
  rewriter.setInsertionPoint(pad);
  return tensor::EmptyOp::create(rewriter, pad.getLoc(), type.getShape(), type.getElementType());
}

/// The value that pads, where the insertion point is: a constant in the region of `pad` is copied out.
static Value paddingOf(RewriterBase &rewriter, tensor::PadOp pad) {
  Value padding = pad.getConstantPaddingValue();
  if (padding.getParentRegion() != &pad.getRegion())
    return padding;
  return rewriter.clone(*padding.getDefiningOp())->getResult(cast<OpResult>(padding).getResultNumber());
}

/// The rows of a block of `all` rows, a multiple of `group` that divides them.
static int64_t blockHeightOf(int64_t all, int64_t group) {
  if (all <= maxBlockRows)
    return all;
  int64_t height = std::max<int64_t>(blockRows / group, 1) * group;
  while (all % height != 0)
    height -= group;
  return height;
}

/// Whether `pad` only adds rows and columns at the end, the same value everywhere, to a matrix that vectors can hold.
static bool isSupported(tensor::PadOp pad) {
  RankedTensorType source = pad.getSourceType(), type = pad.getResultType();
  if (type.getRank() != 2 || !type.hasStaticShape() || !pad.hasZeroLowPad() || !pad.getConstantPaddingValue() ||
      !VectorType::isValidElementType(type.getElementType()))
    return false;
  return llvm::all_of(llvm::zip_equal(source.getShape(), type.getShape()), [](auto sizes) {
    auto [before, after] = sizes;
    return ShapedType::isDynamic(before) || before <= after;
  });
}

DiagnosedSilenceableFailure VectorizePadOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                       transform::ApplyToEachResultList &results,
                                                       transform::TransformState &state) {
  auto pad = dyn_cast<tensor::PadOp>(target);
  if (!pad || !isSupported(pad)) {
    DiagnosedSilenceableFailure failure =
        emitSilenceableError()
        << "expected a two-dimensional tensor.pad of numbers with a static result, no low or "
           "negative padding and a constant padding value: pad with transform.structured.pad first";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  RankedTensorType type = pad.getResultType();
  int64_t group = getRows();
  if (type.getDimSize(0) % group != 0) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << "the result has " << type.getDimSize(0)
                                                                 << " rows, no multiple of " << group;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  if (getComputed()) {
    linalg::GenericOp generic = PadFunction::producerOf(pad.getSource());
    StringRef why = generic ? PadFunction::unsupported(generic, getTransposed()) : "is no linalg.generic";
    if (!why.empty()) {
      DiagnosedSilenceableFailure failure =
          emitSilenceableError() << "expected a source that an elementwise linalg.generic computes: it " << why;
      failure.attachNote(target->getLoc()) << "payload operation";
      return failure;
    }
  }
  Location loc = pad.getLoc();
  Value dest = destinationOf(rewriter, pad);
  int64_t blockHeight = getTransposed() ? blockHeightOf(type.getDimSize(0), group) : 0;
  int64_t lanes = blockHeight ? std::min<int64_t>(getLanes(), blockColumns) : getLanes();
  OpFoldResult rows = tensor::getMixedSize(rewriter, loc, pad.getSource(), 0);
  OpFoldResult columns = tensor::getMixedSize(rewriter, loc, pad.getSource(), 1);
  std::optional<uint64_t> trimmed = getTrimmed();
  Value existing = trimmed && !getConstantIntValue(columns) ? cast<Value>(columns) : Value();
  int64_t read = getStep();
  Value used = trimmed == 1 ? existing : Value();
  if (used && read > 1) { // What is multiplied in steps reads the last one whole.
    AffineExpr column = rewriter.getAffineDimExpr(0);
    used = getValueOrCreateConstantIndexOp(
        rewriter, loc, affine::makeComposedFoldedAffineApply(rewriter, loc, column.ceilDiv(read) * read, columns));
  }
  Value padding = paddingOf(rewriter, pad);
  PadCopy copy(rewriter, pad, padding, lanes, group, blockHeight, existing, used);
  if (getComputed())
    copy.compute(PadFunction(
        rewriter, loc, pad.getSource(),
        {getValueOrCreateConstantIndexOp(rewriter, loc, rows), getValueOrCreateConstantIndexOp(rewriter, loc, columns)},
        padding, getTransposed()));
  AffineExpr row = rewriter.getAffineDimExpr(0);
  auto rounded = [&](AffineExpr expr) { return affine::makeComposedFoldedAffineApply(rewriter, loc, expr, rows); };
  int64_t step = blockHeight ? blockHeight : group;
  OpFoldResult wholeRows = rounded(row.floorDiv(step) * step), filledRows = rounded(row.ceilDiv(step) * step);
  auto valueOf = [&](OpFoldResult size) { return getValueOrCreateConstantIndexOp(rewriter, loc, size); };
  Value groupedCount = valueOf(wholeRows);
  Value zero = copy.index(0), allRows = copy.index(type.getDimSize(0)), allColumns = copy.index(type.getDimSize(1));

  bool fillsColumns = isConstantIntValue(columns, type.getDimSize(1));
  bool masked = getMasked() && copy.isOfBlocks() && !fillsColumns;
  Value result;
  if (masked) {
    result = copy.copyBlocks(dest, groupedCount, valueOf(rows), valueOf(columns));
  } else if (fillsColumns) {
    result = copy.copyRows(dest, zero, groupedCount, RowSource::FullRow);
  } else if (copy.splitsRows()) {
    result = copy.copyRows(dest, zero, groupedCount, RowSource::PartialRow);
  } else {
    Value columnCount = valueOf(columns);
    Value full = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq, columnCount, allColumns);
    auto branch = scf::IfOp::create(rewriter, loc, TypeRange{type}, full, /*withElseRegion=*/true);
    for (auto [block, kind] :
         {std::pair(branch.thenBlock(), RowSource::FullRow), std::pair(branch.elseBlock(), RowSource::PartialRow)}) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(block);
      Value copied = copy.copyRows(dest, zero, groupedCount, kind);
      scf::YieldOp::create(rewriter, loc, copied);
    }
    result = branch.getResult(0);
  }
  if (!masked && wholeRows != filledRows)
    result = copy.copyRows(result, groupedCount, valueOf(rows), RowSource::PartialGroup);
  // Likewise of rows: what buffers held before may be no numbers.
  bool complete = trimmed == 0 ? read <= step : isConstantIntValue(filledRows, type.getDimSize(0));
  if (!complete) {
    Value readRows = trimmed == 0 ? valueOf(rounded(row.ceilDiv(read) * read)) : allRows;
    result = copy.copyRows(result, valueOf(filledRows), readRows, RowSource::PaddingOnly);
  }
  rewriter.replaceOp(pad, result);
  return DiagnosedSilenceableFailure::success();
}

void VectorizePadOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
