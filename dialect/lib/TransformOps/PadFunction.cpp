// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PadFunction.h"
#include "VectorBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tilewright;

/// Ops that only say which element a tensor.extract takes.
static bool isPartOfIndex(Operation &op) {
  return isa<linalg::IndexOp, arith::IndexCastOp>(op) &&
         llvm::all_of(op.getUsers(), [](Operation *user) { return isa<tensor::ExtractOp>(user); });
}

/// Whether `extract` takes elements of a row side by side, its number being an element of an input along the rows.
static bool isGather(linalg::GenericOp generic, tensor::ExtractOp extract) {
  if (extract.getIndices().size() != 2)
    return false;
  auto row = extract.getIndices()[0].getDefiningOp<arith::IndexCastOp>();
  auto column = extract.getIndices()[1].getDefiningOp<linalg::IndexOp>();
  bool isColumn = column ? column.getDim() == 1 : isConstantIntValue(extract.getIndices()[1], 0); // of one column
  auto number = row ? dyn_cast<BlockArgument>(row.getIn()) : nullptr;
  if (!isColumn || !number || number.getOwner() != generic.getBlock())
    return false;
  AffineMap map = generic.getIndexingMapsArray()[number.getArgNumber()];
  return map.getNumResults() == 1 && map.getResult(0) == getAffineDimExpr(0, map.getContext());
}

linalg::GenericOp PadFunction::producerOf(Value source) {
  if (auto slice = source.getDefiningOp<tensor::ExtractSliceOp>())
    source = slice.getSource();
  return source.getDefiningOp<linalg::GenericOp>();
}

StringRef PadFunction::unsupported(linalg::GenericOp generic, bool transposed) {
  if (generic.getNumLoops() != 2 || generic.getNumParallelLoops() != 2 || generic.getNumDpsInits() != 1 ||
      !generic.getMatchingIndexingMap(&generic.getDpsInitsMutable()[0]).isIdentity() ||
      !generic.getMatchingBlockArgument(&generic.getDpsInitsMutable()[0]).use_empty())
    return "is no elementwise function of a matrix";
  if (!llvm::all_of(generic.getIndexingMapsArray(), [](AffineMap map) { return map.isProjectedPermutation(); }) ||
      (transposed && !generic.getIndexingMapsArray().front().isIdentity()))
    return "reads an input neither at the same place nor broadcast";
  auto isOther = [&](Operation &op) {
    auto extract = dyn_cast<tensor::ExtractOp>(op);
    return isPartOfIndex(op) || (extract && !transposed && isGather(generic, extract));
  };
  return isElementwiseBody(generic.getBlock(), isOther) ? "" : "computes more than one number from numbers";
}

static Value plus(RewriterBase &rewriter, Location loc, Value value, OpFoldResult offset) {
  if (isConstantIntValue(offset, 0))
    return value;
  return arith::AddIOp::create(rewriter, loc, value, getValueOrCreateConstantIndexOp(rewriter, loc, offset));
}

PadFunction::PadFunction(RewriterBase &rewriter, Location loc, Value source, std::array<Value, 2> sizes, Value padding,
                         bool transposed)
    : rewriter(rewriter), loc(loc), generic(producerOf(source)), sizes(sizes), padding(padding),
      transposed(transposed) {
  if (auto slice = source.getDefiningOp<tensor::ExtractSliceOp>())
    for (auto [offset, given] : llvm::zip_equal(offsets, slice.getMixedOffsets()))
      offset = getValueOrCreateConstantIndexOp(rewriter, loc, given);
}

/// One element of an input, the same for a whole vector.
Value PadFunction::element(OpOperand &operand, std::array<Value, 2> at) {
  SmallVector<Value> indices;
  for (AffineExpr result : generic.getMatchingIndexingMap(&operand).getResults())
    indices.push_back(at[cast<AffineDimExpr>(result).getPosition()]);
  return tensor::ExtractOp::create(rewriter, loc, operand.get(), indices);
}

Value PadFunction::operandVector(OpOperand &operand, std::array<Value, 2> at, unsigned along, int64_t width,
                                 bool inBounds) {
  Type type = cast<RankedTensorType>(operand.get().getType()).getElementType();
  AffineMap map = generic.getMatchingIndexingMap(&operand);
  SmallVector<Value> indices;
  std::optional<unsigned> position;
  for (auto [i, result] : llvm::enumerate(map.getResults())) {
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    indices.push_back(at[dim]);
    if (dim == along)
      position = i;
  }
  if (!position)
    return vector::BroadcastOp::create(rewriter, loc, VectorType::get({width}, type), element(operand, at));
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
  unsigned rank = map.getNumResults();
  bool sideBySide = *position == rank - 1 || (transposed && operand.getOperandNumber() == 0);
  SmallVector<int64_t> shape{width};
  SmallVector<AffineExpr> results{rewriter.getAffineDimExpr(*position)};
  SmallVector<bool> bounds{inBounds};
  if (!sideBySide) { // What is lowered element by element is a column.
    shape.push_back(1);
    results.push_back(rewriter.getAffineDimExpr(rank - 1));
    bounds.push_back(true);
  }
  Value vector =
      vector::TransferReadOp::create(rewriter, loc, VectorType::get(shape, type), operand.get(), indices,
                                     AffineMapAttr::get(AffineMap::get(rank, 0, results, rewriter.getContext())), zero,
                                     /*mask=*/Value(), rewriter.getBoolArrayAttr(bounds));
  return sideBySide ? vector
                    : vector::ShapeCastOp::create(rewriter, loc, VectorType::get({width}, type), vector).getResult();
}

/// Elements side by side of the row of a table whose number stands in an input.
Value PadFunction::gathered(tensor::ExtractOp extract, std::array<Value, 2> at, int64_t width, bool inBounds) {
  auto cast = extract.getIndices()[0].getDefiningOp<arith::IndexCastOp>();
  OpOperand &numbers = generic->getOpOperand(mlir::cast<BlockArgument>(cast.getIn()).getArgNumber());
  Value row = arith::IndexCastOp::create(rewriter, loc, rewriter.getIndexType(), element(numbers, at));
  Type type = extract.getType();
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
  return vector::TransferReadOp::create(rewriter, loc, VectorType::get({width}, type), extract.getTensor(),
                                        ValueRange{row, at[1]}, zero, ArrayRef<bool>{inBounds});
}

Value PadFunction::read(std::array<Value, 2> at, unsigned along, int64_t width, bool inBounds, bool exists) {
  unsigned across = 1 - along;
  Value left = inBounds ? arith::ConstantIndexOp::create(rewriter, loc, width).getResult()
                        : arith::SubIOp::create(rewriter, loc, sizes[along], at[along]).getResult();
  if (!exists) {
    // A row that there is, is read in its place: nothing of it is kept.
    Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0),
          one = arith::ConstantIndexOp::create(rewriter, loc, 1);
    Value there = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ult, at[across], sizes[across]);
    Value last = arith::SubIOp::create(rewriter, loc, sizes[across], one);
    at[across] = arith::MinUIOp::create(rewriter, loc, at[across], last);
    left = arith::SelectOp::create(rewriter, loc, there, left, zero);
  }
  for (unsigned dim : {0, 1})
    if (offsets[dim])
      at[dim] = plus(rewriter, loc, at[dim], getAsOpFoldResult(offsets[dim]));
  VectorBody body(rewriter, loc, {width});
  Block *block = generic.getBlock();
  llvm::SmallPtrSet<Operation *, 4> indices;
  for (Operation &op : block->without_terminator())
    if (isPartOfIndex(op))
      indices.insert(&op);
  for (OpOperand *operand : generic.getDpsInputOperands()) {
    BlockArgument argument = generic.getMatchingBlockArgument(operand);
    if (llvm::any_of(argument.getUsers(), [&](Operation *user) { return !indices.contains(user); }))
      body.map(argument, operandVector(*operand, at, along, width, inBounds));
  }
  for (Operation &op : block->without_terminator()) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(op))
      body.map(extract, gathered(extract, at, width, inBounds));
    else if (!indices.contains(&op))
      body.repeat(op);
  }
  Value result = body.of(block->getTerminator()->getOperand(0));
  if (inBounds && exists)
    return result;
  Value mask = vector::CreateMaskOp::create(rewriter, loc, body.type(rewriter.getI1Type()), left);
  Value pads = vector::BroadcastOp::create(rewriter, loc, result.getType(), padding);
  return arith::SelectOp::create(rewriter, loc, mask, result, pads);
}
