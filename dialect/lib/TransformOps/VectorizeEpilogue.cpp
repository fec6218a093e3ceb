// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"
#include "TransposeBlock.h"
#include "VectorBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tilewright;

/// Rows and columns of the blocks that are transposed at once: vectors of 512 bits of f32.
constexpr int64_t blockRows = 16;

/// The whole tile, of static shape, of which `input` is the first rows and columns, or the vector that was written
/// there; null when it is nothing of the kind.
static Value wholeTile(Value input) {
  if (auto write = input.getDefiningOp<vector::TransferWriteOp>();
      write && write.getVectorType().getRank() == 2 && write.getPermutationMap().isIdentity() && !write.getMask() &&
      llvm::all_of(write.getIndices(), [](Value index) { return isConstantIntValue(index, 0); }))
    return write.getValueToStore();
  auto isStatic = [](Value value) { return cast<RankedTensorType>(value.getType()).hasStaticShape(); };
  auto slice = input.getDefiningOp<tensor::ExtractSliceOp>();
  if (slice && slice.getSourceType().getRank() == 2 && isStatic(slice.getSource()) && slice.hasUnitStride() &&
      llvm::all_of(slice.getMixedOffsets(), [](OpFoldResult offset) { return isConstantIntValue(offset, 0); }))
    return slice.getSource();
  return isStatic(input) ? input : Value();
}

/// What was inserted into `input`, where that is all of it: as much as `init`, a tile of the result, or its transpose
/// has.
static Value insertedWhole(Value input, Value init, bool isTransposed) {
  auto insert = input.getDefiningOp<tensor::InsertSliceOp>();
  auto slice = init.getDefiningOp<tensor::ExtractSliceOp>();
  if (!insert || !slice || insert.getSourceType().getRank() != 2 || !insert.hasUnitStride())
    return input;
  SmallVector<OpFoldResult> sizes = slice.getMixedSizes();
  if (isTransposed && sizes.size() == 2)
    std::swap(sizes[0], sizes[1]);
  bool whole =
      isEqualConstantIntOrValueArray(insert.getMixedSizes(), sizes) &&
      llvm::all_of(insert.getMixedOffsets(), [](OpFoldResult offset) { return isConstantIntValue(offset, 0); });
  return whole ? insert.getSource() : input;
}

namespace {
/// Makes vectors of one epilogue, of a `shape`. There is no padded `tile` of sums where that was given. Its first input
/// may be transposed.
class EpilogueVectors {
public:
  EpilogueVectors(RewriterBase &rewriter, linalg::GenericOp epilogue, Value tile, ArrayRef<int64_t> shape)
      : rewriter(rewriter), epilogue(epilogue), loc(epilogue.getLoc()), tile(tile), shape(shape),
        zero(arith::ConstantIndexOp::create(rewriter, loc, 0)), body(rewriter, loc, shape) {}

  vector::TransferWriteOp build() {
    Block *block = epilogue.getBlock();
    body.map(block->getArgument(0), readSums(epilogue->getOpOperand(0)));
    for (OpOperand &operand : epilogue->getOpOperands().drop_front())
      if (BlockArgument argument = epilogue.getMatchingBlockArgument(&operand); !argument.use_empty())
        body.map(argument, isTile(operand) ? readWhole(tileOf(operand)) : read(operand));
    for (Operation &op : block->without_terminator())
      body.repeat(op);
    Value result = body.of(block->getTerminator()->getOperand(0));
    OpOperand &init = epilogue.getDpsInitsMutable()[0];
    return vector::TransferWriteOp::create(rewriter, loc, result, init.get(), ValueRange{zero, zero},
                                           inBounds(init.get(), {0, 1}));
  }

private:
  /// Whether each dimension of `operand`, that at a position of the tile's or at -1, is as large as the tile.
  SmallVector<bool> inBounds(Value operand, ArrayRef<int64_t> positions) {
    auto type = cast<RankedTensorType>(operand.getType());
    SmallVector<bool> result;
    for (auto [size, position] : llvm::zip_equal(shape, positions))
      result.push_back(position < 0 || type.getDimSize(position) == size);
    return result;
  }

  /// Whether `operand` is another tile of sums, padded as the first one is.
  bool isTile(OpOperand &operand) {
    Value whole = tile && epilogue.isDpsInput(&operand) && epilogue.getMatchingIndexingMap(&operand).isIdentity()
                      ? tileOf(operand)
                      : Value();
    return whole && cast<ShapedType>(whole.getType()).getShape() == shape;
  }

  Value tileOf(OpOperand &operand) {
    return wholeTile(insertedWhole(operand.get(), epilogue.getDpsInits()[0], /*isTransposed=*/false));
  }

  Value readWhole(Value whole) {
    if (isa<VectorType>(whole.getType()))
      return whole;
    auto type = cast<RankedTensorType>(whole.getType());
    return readRows(whole, VectorType::get(type.getShape(), type.getElementType()), {true, true});
  }

  Value readRows(Value source, VectorType type, ArrayRef<bool> inBounds) {
    return vector::TransferReadOp::create(rewriter, loc, type, source, ValueRange{zero, zero},
                                          zeroOf(type.getElementType()), inBounds);
  }

  Value readSums(OpOperand &operand) {
    bool isTransposed = !epilogue.getMatchingIndexingMap(&operand).isIdentity();
    if (!isTransposed)
      return tile ? readWhole(tile) : read(operand);
    if (tile)
      return transposed(readWhole(tile));
    auto type = cast<RankedTensorType>(operand.get().getType());
    ArrayRef<int64_t> sizes = type.getShape();
    return transposed(readRows(operand.get(), VectorType::get({shape[1], shape[0]}, type.getElementType()),
                               {sizes[0] == shape[1], sizes[1] == shape[0]}));
  }

  /// The transpose of a vector of rows, by blocks that registers hold.
  Value transposed(Value rows) {
    auto type = cast<VectorType>(rows.getType());
    Value result = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(body.type(type.getElementType())));
    for (int64_t row = 0; row < type.getDimSize(0); row += blockRows)
      for (int64_t column = 0; column < type.getDimSize(1); column += blockRows) {
        int64_t height = std::min(type.getDimSize(0) - row, blockRows);
        int64_t width = std::min(type.getDimSize(1) - column, blockRows);
        SmallVector<Value> pieces;
        for (int64_t each = row; each < row + height; ++each)
          pieces.push_back(vector::ShapeCastOp::create(
              rewriter, loc, VectorType::get({width}, type.getElementType()),
              vector::ExtractStridedSliceOp::create(rewriter, loc, rows, ArrayRef<int64_t>{each, column},
                                                    ArrayRef<int64_t>{1, width}, ArrayRef<int64_t>{1, 1})));
        for (auto [number, piece] : llvm::enumerate(transposedBlock(rewriter, loc, pieces, /*group=*/1)))
          result = vector::InsertStridedSliceOp::create(rewriter, loc, piece, result,
                                                        ArrayRef<int64_t>{column + static_cast<int64_t>(number), row},
                                                        ArrayRef<int64_t>{1});
      }
    return result;
  }

  Value zeroOf(Type element) { return arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(element)); }

  /// An operand that may lack one of the tile's dimensions, or both: it is the same along those.
  Value read(OpOperand &operand) {
    auto type = cast<RankedTensorType>(operand.get().getType());
    Type element = type.getElementType();
    if (type.getRank() == 0) {
      Value scalar = tensor::ExtractOp::create(rewriter, loc, operand.get(), ValueRange{});
      return vector::BroadcastOp::create(rewriter, loc, body.type(element), scalar);
    }
    SmallVector<int64_t> positions{-1, -1};
    for (auto [position, expr] : llvm::enumerate(epilogue.getMatchingIndexingMap(&operand).getResults()))
      positions[cast<AffineDimExpr>(expr).getPosition()] = position;
    SmallVector<AffineExpr> results;
    for (int64_t position : positions)
      results.push_back(position < 0 ? rewriter.getAffineConstantExpr(0) : rewriter.getAffineDimExpr(position));
    auto map = AffineMap::get(type.getRank(), 0, results, rewriter.getContext());
    SmallVector<Value> indices(type.getRank(), zero);
    return vector::TransferReadOp::create(rewriter, loc, body.type(element), operand.get(), indices,
                                          AffineMapAttr::get(map), zeroOf(element), /*mask=*/Value(),
                                          rewriter.getBoolArrayAttr(inBounds(operand.get(), positions)));
  }

  RewriterBase &rewriter;
  linalg::GenericOp epilogue;
  Location loc;
  Value tile;
  ArrayRef<int64_t> shape;
  Value zero;
  VectorBody body;
};
} // namespace

/// Whether `epilogue` computes each element of a matrix, or of its transpose, from the same element of its first input
/// and what is broadcast.
static bool isSupported(linalg::GenericOp epilogue) {
  if (!epilogue.hasPureTensorSemantics() || epilogue.getNumLoops() != 2 || epilogue.getNumParallelLoops() != 2 ||
      epilogue.getNumDpsInputs() == 0 || epilogue.getNumDpsInits() != 1)
    return false;
  SmallVector<AffineMap> maps = epilogue.getIndexingMapsArray();
  return maps.front().isIdentity() && maps.back().isPermutation() &&
         llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); }) &&
         isElementwiseBody(epilogue.getBlock());
}

DiagnosedSilenceableFailure VectorizeEpilogueOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                            transform::ApplyToEachResultList &results,
                                                            transform::TransformState &state) {
  auto epilogue = dyn_cast<linalg::GenericOp>(target);
  bool isGiven = getShape().has_value();
  if (isGiven && (getShape()->size() != 2 || llvm::any_of(*getShape(), [](int64_t size) { return size < 1; })))
    return emitDefiniteFailure() << "expected a shape of rows and columns, each above zero";
  bool isTransposed = epilogue && isSupported(epilogue) && !epilogue.getIndexingMapsArray().back().isIdentity();
  Value tile = epilogue && isSupported(epilogue) && !isGiven
                   ? wholeTile(insertedWhole(epilogue.getInputs()[0], epilogue.getDpsInits()[0], isTransposed))
                   : Value();
  if (!tile && !(isGiven && epilogue && isSupported(epilogue))) {
    DiagnosedSilenceableFailure failure =
        emitSilenceableError()
        << "expected an elementwise linalg.generic over (m, n) on tensors, whose first input is a "
           "tile of static shape or the first rows and columns of one: pad the product first";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  rewriter.setInsertionPoint(epilogue);
  SmallVector<int64_t> shape(tile ? cast<ShapedType>(tile.getType()).getShape() : *getShape());
  if (isTransposed) { // All is done in the order of the result.
    std::swap(shape[0], shape[1]);
    if (failed(linalg::interchangeGenericOp(rewriter, epilogue, {1, 0})))
      return emitDefiniteFailure() << "the loops of the epilogue cannot be interchanged";
  }
  vector::TransferWriteOp write = EpilogueVectors(rewriter, epilogue, tile, shape).build();
  rewriter.replaceOp(epilogue, write.getResult());
  results.push_back(write);
  return DiagnosedSilenceableFailure::success();
}

void VectorizeEpilogueOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::producesHandle(getOperation()->getOpResults(), effects);
  transform::modifiesPayload(effects);
}
