// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// An operand of a contraction in dot form, before it is extended.
struct Narrow {
  Value source;
  bool isUnsigned;
};

/// Lowers one contraction.
class DotLowering {
public:
  DotLowering(RewriterBase &rewriter, vector::ContractionOp contract, ContractToDotOp options)
      : rewriter(rewriter), contract(contract), loc(contract.getLoc()), intrinsic(options.getIntrinsicAttr()),
        element(options.getElement()), depth(options.getDepth()), lanes(options.getLanes()), adds(options.getAdds()),
        unsignedFirst(options.getUnsignedFirst()), bothUnsigned(options.getBothUnsigned()), byLane(options.getByLane()) {}

  /// Whether the instruction does what the contraction says; finds the operands.
  bool fits() {
    if (contract.getIndexingMapsArray() != dotFormMaps(rewriter.getContext()) ||
        contract.getKind() != vector::CombiningKind::ADD || contract.getRhsType().getDimSize(1) % lanes != 0 ||
        contract.getRhsType().getDimSize(2) != depth)
      return false;
    std::optional<Narrow> left = narrowed(contract.getLhs()), right = narrowed(contract.getRhs());
    if (!left || !right)
      return false;
    lhs = *left;
    rhs = *right;
    if (unsignedFirst)
      return lhs.isUnsigned != rhs.isUnsigned;
    return lhs.isUnsigned == bothUnsigned && rhs.isUnsigned == bothUnsigned;
  }

  Value lower() {
    auto type = cast<VectorType>(contract.getAccType());
    int64_t rows = type.getDimSize(0), registers = type.getDimSize(1) / lanes;
    sumType = VectorType::get({lanes}, type.getElementType());
    SmallVector<Value> sums;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < registers; ++j)
        sums.push_back(sumOf(i, j));
    for (int64_t k = 0, groups = contract.getRhsType().getDimSize(0); k < groups; ++k) {
      SmallVector<Value> columns;
      for (int64_t j = 0; j < registers; ++j)
        columns.push_back(columnsOf(k, j));
      for (int64_t i = 0; i < rows; ++i) {
        Value row = rowOf(i, k);
        for (auto [j, column] : llvm::enumerate(columns)) {
          Value &sum = sums[i * registers + j];
          sum = dot(sum, row, column);
        }
      }
    }
    Value result = ub::PoisonOp::create(rewriter, loc, type);
    auto pieceType = VectorType::get({1, lanes}, type.getElementType());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < registers; ++j) {
        Value piece = vector::ShapeCastOp::create(rewriter, loc, pieceType, sums[i * registers + j]);
        result = vector::InsertStridedSliceOp::create(rewriter, loc, piece, result, ArrayRef<int64_t>{i, j * lanes},
                                                      ArrayRef<int64_t>{1, 1});
      }
    return result;
  }

private:
  std::optional<Narrow> narrowed(Value operand) {
    if (Operation *extension = extensionOf(operand)) {
      Value source = extension->getOperand(0);
      if (getElementTypeOrSelf(source) != element)
        return std::nullopt;
      return Narrow{source, isa<arith::ExtUIOp>(extension)};
    }
    return narrowedConstant(operand);
  }

  /// A constant that was folded with its extension: it has the sign with which it fits.
  std::optional<Narrow> narrowedConstant(Value operand) {
    SplatElementsAttr splat;
    auto narrow = dyn_cast<IntegerType>(element);
    if (!narrow || !matchPattern(operand, m_Constant(&splat)))
      return std::nullopt;
    APInt value = splat.getSplatValue<APInt>();
    bool isSigned = value.isSignedIntN(narrow.getWidth());
    if (!isSigned && !value.isIntN(narrow.getWidth()))
      return std::nullopt;
    auto type = cast<VectorType>(operand.getType()).clone(element);
    auto attr = DenseElementsAttr::get(cast<ShapedType>(Type(type)), value.trunc(narrow.getWidth()));
    return Narrow{arith::ConstantOp::create(rewriter, loc, attr), !isSigned};
  }

  /// The read of rank two that `value` is, its rows in bounds, when reading again here gives the same.
  vector::TransferReadOp rereadable(Value value, bool columnsInBounds = true) {
    auto read = value.getDefiningOp<vector::TransferReadOp>();
    if (!read || read->getBlock() != contract->getBlock() || read.getMask() || read.getVectorType().getRank() != 2 ||
        !read.isDimInBounds(0) || (columnsInBounds && !read.isDimInBounds(1)) ||
        !read.getPermutationMap().isMinorIdentity())
      return nullptr;
    for (Operation *op = read->getNextNode(); op != contract; op = op->getNextNode())
      if (!isMemoryEffectFree(op) && !isa<vector::TransferReadOp, LLVM::CallIntrinsicOp>(op))
        return nullptr;
    return read;
  }

  /// `width` elements of what `read` reads, from (row, column) of the vector.
  Value reread(vector::TransferReadOp read, int64_t row, int64_t column, int64_t width) {
    SmallVector<Value> indices(read.getIndices());
    AffineExpr index = rewriter.getAffineDimExpr(0);
    auto shift = [&](Value &value, int64_t by) {
      value = getValueOrCreateConstantIndexOp(
          rewriter, loc, affine::makeComposedFoldedAffineApply(rewriter, loc, index + by, getAsOpFoldResult(value)));
    };
    shift(indices[indices.size() - 2], row);
    shift(indices.back(), column);
    return vector::TransferReadOp::create(rewriter, loc, VectorType::get({width}, element), read.getBase(), indices,
                                          read.getPadding(), ArrayRef<bool>{read.isDimInBounds(1)});
  }

  /// Group `k` of row `i` of A, in every lane.
  Value rowOf(int64_t i, int64_t k) {
    auto cast = lhs.source.getDefiningOp<vector::ShapeCastOp>();
    vector::TransferReadOp read = cast ? rereadable(cast.getSource()) : nullptr;
    // With whole registers of groups, the one with this group, read once for all of them.
    int64_t groups = byLane && read && contract.getRhsType().getDimSize(0) % lanes == 0 ? lanes : 1;
    Value group;
    if (groups > 1) {
      Value &row = rowsRead[{i, k / groups}];
      if (!row)
        row = reread(read, i, k / groups * groups * depth, groups * depth);
      group = row;
    } else if (read) {
      group = reread(read, i, k * depth, depth);
    } else {
      group = vector::ExtractOp::create(rewriter, loc, lhs.source, ArrayRef<int64_t>{i, k});
    }
    unsigned bits = depth * element.getIntOrFloatBitWidth();
    Type word = rewriter.getIntegerType(bits);
    // LLVM finds lanes of the type of the sum.
    if (byLane && sumType.getElementTypeBitWidth() == bits)
      word = sumType.getElementType();
    Value scalars = vector::BitCastOp::create(rewriter, loc, VectorType::get({groups}, word), group);
    Value words = vector::BroadcastOp::create(rewriter, loc, VectorType::get({lanes}, word),
                                              vector::ExtractOp::create(rewriter, loc, scalars, k % groups));
    return vector::BitCastOp::create(rewriter, loc, VectorType::get({lanes * depth}, element), words);
  }

  /// Register `j` of the groups `k` of B.
  Value columnsOf(int64_t k, int64_t j) {
    if (auto cast = rhs.source.getDefiningOp<vector::ShapeCastOp>())
      if (vector::TransferReadOp read = rereadable(cast.getSource()))
        return reread(read, k, j * lanes * depth, lanes * depth);
    auto transpose = rhs.source.getDefiningOp<vector::TransposeOp>();
    auto cast = transpose ? transpose.getVector().getDefiningOp<vector::ShapeCastOp>() : nullptr;
    constexpr bool columnsInBounds = false;
    if (vector::TransferReadOp read = cast ? rereadable(cast.getSource(), columnsInBounds) : nullptr) {
      SmallVector<Value> rows;
      for (int64_t row = 0; row < depth; ++row)
        rows.push_back(reread(read, k * depth + row, j * lanes, lanes));
      return interleaved(rewriter, loc, rows);
    }
    Value group = vector::ExtractStridedSliceOp::create(rewriter, loc, rhs.source, ArrayRef<int64_t>{k, j * lanes, 0},
                                                        ArrayRef<int64_t>{1, lanes, depth}, ArrayRef<int64_t>{1, 1, 1});
    return vector::ShapeCastOp::create(rewriter, loc, VectorType::get({lanes * depth}, element), group);
  }

  Value sumOf(int64_t i, int64_t j) {
    Value piece = vector::ExtractStridedSliceOp::create(rewriter, loc, contract.getAcc(), ArrayRef<int64_t>{i, j * lanes},
                                                        ArrayRef<int64_t>{1, lanes}, ArrayRef<int64_t>{1, 1});
    return vector::ShapeCastOp::create(rewriter, loc, sumType, piece);
  }

  Value dot(Value sum, Value row, Value column) {
    SmallVector<Value> operands{row, column};
    // What is taken by lane comes last, except where the signs say the order.
    if (unsignedFirst ? rhs.isUnsigned : byLane)
      std::swap(operands[0], operands[1]);
    if (adds)
      operands.insert(operands.begin(), sum);
    Value result = LLVM::CallIntrinsicOp::create(rewriter, loc, sumType, intrinsic, operands).getResult(0);
    return adds ? result : arith::AddIOp::create(rewriter, loc, sum, result).getResult();
  }

  RewriterBase &rewriter;
  vector::ContractionOp contract;
  Location loc;
  StringAttr intrinsic;
  Type element;
  int64_t depth, lanes;
  bool adds, unsignedFirst, bothUnsigned, byLane;
  Narrow lhs, rhs;
  VectorType sumType;
  /// Registers of A by row and number, in steps that read whole ones.
  DenseMap<std::pair<int64_t, int64_t>, Value> rowsRead;
};
} // namespace

DiagnosedSilenceableFailure ContractToDotOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  SmallVector<vector::ContractionOp> contracts;
  target->walk([&](vector::ContractionOp contract) { contracts.push_back(contract); });
  for (vector::ContractionOp contract : contracts) {
    rewriter.setInsertionPoint(contract);
    DotLowering lowering(rewriter, contract, *this);
    if (lowering.fits())
      rewriter.replaceOp(contract, lowering.lower());
  }
  return DiagnosedSilenceableFailure::success();
}

void ContractToDotOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
