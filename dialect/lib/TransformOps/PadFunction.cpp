// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PadFunction.h"
#include "Order.h"
#include "VectorBody.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

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

/// The dimension whose elements, or groups of elements, an input has along `result`; nothing for anything else.
static std::optional<unsigned> dimensionOf(AffineExpr result) {
  if (auto group = dyn_cast<AffineBinaryOpExpr>(result))
    if (group.getKind() == AffineExprKind::FloorDiv && isa<AffineConstantExpr>(group.getRHS()))
      result = group.getLHS();
  if (auto dim = dyn_cast<AffineDimExpr>(result))
    return dim.getPosition();
  return std::nullopt;
}

/// Whether each dimension is that of at most one result, and every result is of one.
static bool hasOnePlaceEach(AffineMap map) {
  llvm::SmallDenseSet<unsigned> found;
  return llvm::all_of(map.getResults(), [&](AffineExpr result) {
    std::optional<unsigned> dim = dimensionOf(result);
    return dim && found.insert(*dim).second;
  });
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
  if (!llvm::all_of(generic.getIndexingMapsArray(), hasOnePlaceEach) ||
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
                         bool transposed, int64_t unit)
    : rewriter(rewriter), loc(loc), generic(producerOf(source)), sizes(sizes), padding(padding), transposed(transposed),
      unit(unit) {
  if (auto slice = source.getDefiningOp<tensor::ExtractSliceOp>())
    for (unsigned dim : {0, 1}) {
      offsets[dim] = getValueOrCreateConstantIndexOp(rewriter, loc, slice.getMixedOffsets()[dim]);
      strides[dim] = getValueOrCreateConstantIndexOp(rewriter, loc, slice.getMixedStrides()[dim]);
    }
}

std::array<Value, 2> PadFunction::inWhole(std::array<Value, 2> at) {
  for (unsigned dim : {0, 1}) {
    if (strides[dim] && !isConstantIntValue(strides[dim], 1))
      at[dim] = arith::MulIOp::create(rewriter, loc, at[dim], strides[dim]);
    if (offsets[dim])
      at[dim] = plus(rewriter, loc, at[dim], getAsOpFoldResult(offsets[dim]));
  }
  return at;
}

Value PadFunction::placeIn(AffineExpr result, std::array<Value, 2> at) {
  SmallVector<OpFoldResult> dims{getAsOpFoldResult(at[0]), getAsOpFoldResult(at[1])};
  return getValueOrCreateConstantIndexOp(rewriter, loc,
                                         affine::makeComposedFoldedAffineApply(rewriter, loc, result, dims));
}

/// One element of an input, the same for a whole vector.
Value PadFunction::element(OpOperand &operand, std::array<Value, 2> at) {
  SmallVector<Value> indices;
  for (AffineExpr result : generic.getMatchingIndexingMap(&operand).getResults())
    indices.push_back(placeIn(result, at));
  return tensor::ExtractOp::create(rewriter, loc, operand.get(), indices);
}

/// A vector along the groups of an input, each of `group` elements.
Value PadFunction::groupVector(OpOperand &operand, std::array<Value, 2> at, unsigned along, int64_t width,
                               int64_t group) {
  int64_t groupUnit = std::gcd(group, unit);
  if (width <= groupUnit)
    return vector::BroadcastOp::create(rewriter, loc, VectorType::get({width}, elementType(operand)),
                                       element(operand, at));
  auto type = VectorType::get({width}, elementType(operand));
  Value vector = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type)), start = at[along];
  for (int64_t i = 0; i < width; i += groupUnit) {
    // Beyond the last element there is no group, and what is computed there is not kept.
    Value size = tensor::DimOp::create(rewriter, loc, generic.getDpsInitOperand(0)->get(), along);
    Value one = arith::ConstantIndexOp::create(rewriter, loc, 1), by = arith::ConstantIndexOp::create(rewriter, loc, i);
    at[along] = arith::MinUIOp::create(rewriter, loc, arith::AddIOp::create(rewriter, loc, start, by),
                                       arith::SubIOp::create(rewriter, loc, size, one));
    auto part = VectorType::get({std::min(groupUnit, width - i)}, elementType(operand));
    vector = vector::InsertStridedSliceOp::create(
        rewriter, loc, vector::BroadcastOp::create(rewriter, loc, part, element(operand, at)), vector, i, 1);
  }
  return vector;
}

Value PadFunction::operandVector(OpOperand &operand, std::array<Value, 2> at, unsigned along, int64_t width,
                                 bool inBounds) {
  Type type = elementType(operand);
  AffineMap map = generic.getMatchingIndexingMap(&operand);
  SmallVector<Value> indices;
  std::optional<unsigned> position;
  bool hasGroups = false;
  for (auto [i, result] : llvm::enumerate(map.getResults())) {
    hasGroups |= !isa<AffineDimExpr>(result);
    indices.push_back(placeIn(result, at));
    if (dimensionOf(result) == along)
      position = i;
  }
  if (auto group = position ? dyn_cast<AffineBinaryOpExpr>(map.getResult(*position)) : nullptr)
    return groupVector(operand, at, along, width, cast<AffineConstantExpr>(group.getRHS()).getValue());
  if (!position)
    return vector::BroadcastOp::create(rewriter, loc, VectorType::get({width}, type), element(operand, at));
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
  unsigned rank = map.getNumResults();
  // What is stored transposed is the matrix, and what has an element for each of its groups.
  bool turned = transposed && (operand.getOperandNumber() == 0 || hasGroups);
  bool sideBySide = turned ? *position == 0 : *position == rank - 1;
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

Type PadFunction::elementType(OpOperand &operand) {
  return cast<RankedTensorType>(operand.get().getType()).getElementType();
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
  at = inWhole(at);
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

bool PadFunction::isOfCodes(linalg::GenericOp generic, int64_t block, int64_t ways) {
  OpOperand &codes = generic->getOpOperand(0);
  AffineExpr row, column;
  bindDims(generic.getContext(), row, column);
  return generic.getMatchingIndexingMap(&codes) ==
             AffineMap::get(2, 0, {reordered(row, block, ways), column}, generic.getContext()) &&
         elementType(codes).getIntOrFloatBitWidth() == codeBits && isElementwiseBody(generic.getBlock(), nullptr);
}

Value PadFunction::words(std::array<Value, 2> at, int64_t block, int64_t ways) {
  OpOperand &codes = generic->getOpOperand(0);
  at = inWhole(at);
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(elementType(codes)));
  Value read = vector::TransferReadOp::create(rewriter, loc, VectorType::get({block}, elementType(codes)), codes.get(),
                                              ValueRange{at[0], at[1]},
                                              AffineMapAttr::get(AffineMap::get(2, 0, rewriter.getAffineDimExpr(0))),
                                              zero, /*mask=*/Value(), rewriter.getBoolArrayAttr({true}));
  auto type = VectorType::get({block / ways}, rewriter.getIntegerType(ways * codeBits));
  return vector::BitCastOp::create(rewriter, loc, type, read);
}

/// Whether `value` in the body of `generic` depends on the element that its first input has.
static bool dependsOnElement(linalg::GenericOp generic, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() == 0;
  return llvm::any_of(value.getDefiningOp()->getOperands(),
                      [&](Value each) { return dependsOnElement(generic, each); });
}

PadFunction::Product PadFunction::product(linalg::GenericOp generic) {
  Value result = generic.getBlock()->getTerminator()->getOperand(0);
  auto rounded = result.getDefiningOp<arith::TruncFOp>();
  // What f16 cannot hold is infinite before it is added up, and need not be afterwards.
  bool isWide = !rounded || rounded.getOut().getType().isBF16();
  auto multiplied = (rounded ? rounded.getIn() : result).getDefiningOp<arith::MulFOp>();
  if (isWide && multiplied)
    for (auto [element, factor] :
         {std::pair(multiplied.getLhs(), multiplied.getRhs()), std::pair(multiplied.getRhs(), multiplied.getLhs())})
      if (dependsOnElement(generic, element) && !dependsOnElement(generic, factor))
        return {element, factor};
  return {result, Value()};
}

Value PadFunction::factor(std::array<Value, 2> at, int64_t lanes) {
  Value factor = product(generic).factor;
  return factor ? computed(inWhole(at), lanes, factor) : Value();
}

Value PadFunction::table(std::array<Value, 2> at) {
  constexpr int64_t count = 1 << codeBits;
  Value table = computed(inWhole(at), count, product(generic).element);
  auto type = VectorType::get({count}, elementType(*generic.getDpsInitOperand(0)));
  return table.getType() == type ? table : arith::TruncFOp::create(rewriter, loc, type, table).getResult();
}

/// What the body computes as `wanted` for each of `count` codes, as a vector.
Value PadFunction::computed(std::array<Value, 2> at, int64_t count, Value wanted) {
  VectorBody body(rewriter, loc, {count});
  for (OpOperand *operand : generic.getDpsInputOperands()) {
    VectorType type = body.type(elementType(*operand));
    Value vector;
    if (operand->getOperandNumber() == 0) {
      SmallVector<Attribute> codes;
      for (int64_t code = 0; code < count; ++code)
        if (auto floats = dyn_cast<FloatType>(type.getElementType()))
          codes.push_back(rewriter.getFloatAttr(floats, APFloat(floats.getFloatSemantics(), APInt(codeBits, code))));
        else
          codes.push_back(rewriter.getIntegerAttr(type.getElementType(), APInt(codeBits, code)));
      vector = arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, codes));
    } else {
      vector = vector::BroadcastOp::create(rewriter, loc, type, element(*operand, at));
    }
    body.map(generic.getMatchingBlockArgument(operand), vector);
  }
  for (Operation &op : generic.getBlock()->without_terminator())
    body.repeat(op);
  return body.of(wanted);
}
