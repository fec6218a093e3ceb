// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "DotOperands.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;

namespace {
/// Lowers one contraction.
class DotLowering : DotOperands {
public:
  DotLowering(RewriterBase &rewriter, vector::ContractionOp contract, ContractToDotOp options)
      : DotOperands(rewriter, contract, options.getElement()), intrinsic(options.getIntrinsicAttr()),
        depth(options.getDepth()), lanes(options.getLanes()), adds(options.getAdds()),
        unsignedFirst(options.getUnsignedFirst()), bothUnsigned(options.getBothUnsigned()),
        byLane(options.getByLane()) {}

  /// Whether the instruction does what the contraction says; finds the operands.
  bool fits() {
    if (contract.getIndexingMapsArray() != dotFormMaps(rewriter.getContext()) ||
        contract.getKind() != vector::CombiningKind::ADD || contract.getRhsType().getDimSize(1) % lanes != 0 ||
        contract.getRhsType().getDimSize(2) != depth)
      return false;
    return findOperands() && signsFit(unsignedFirst, bothUnsigned);
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
      // As many registers at once as whole registers of rows give.
      int64_t together = std::gcd(contract.getRhsType().getDimSize(1) / lanes, depth), first = j / together * together;
      SmallVector<Value> &parts = interleavedRows[{k, first}];
      if (parts.empty()) {
        SmallVector<Value> rows;
        for (int64_t row = 0; row < depth; ++row)
          rows.push_back(reread(read, k * depth + row, first * lanes, together * lanes));
        parts = interleavedRegisters(rewriter, loc, rows);
      }
      if (static_cast<int64_t>(parts.size()) == together)
        return parts[j - first];
      return vector::ExtractStridedSliceOp::create(rewriter, loc, parts.front(),
                                                   ArrayRef<int64_t>{(j - first) * lanes * depth},
                                                   ArrayRef<int64_t>{lanes * depth}, ArrayRef<int64_t>{1});
    }
    if (cast && cast.getSourceVectorType().getRank() == 2)
      return vector::ExtractStridedSliceOp::create(rewriter, loc, groupOf(cast.getSource(), k),
                                                   ArrayRef<int64_t>{j * lanes * depth},
                                                   ArrayRef<int64_t>{lanes * depth}, ArrayRef<int64_t>{1});
    Value group = vector::ExtractStridedSliceOp::create(rewriter, loc, rhs.source, ArrayRef<int64_t>{k, j * lanes, 0},
                                                        ArrayRef<int64_t>{1, lanes, depth}, ArrayRef<int64_t>{1, 1, 1});
    return vector::ShapeCastOp::create(rewriter, loc, VectorType::get({lanes * depth}, element), group);
  }

  /// The rows of group `k` of B, interleaved, where they are computed and not read.
  Value groupOf(Value computed, int64_t k) {
    Value &group = groups[k];
    if (!group) {
      SmallVector<Value> rows;
      for (int64_t row = 0; row < depth; ++row)
        rows.push_back(rewriter.createOrFold<vector::ExtractOp>(loc, computed, k * depth + row));
      group = interleaved(rewriter, loc, rows);
    }
    return group;
  }

  Value sumOf(int64_t i, int64_t j) {
    Value piece =
        vector::ExtractStridedSliceOp::create(rewriter, loc, contract.getAcc(), ArrayRef<int64_t>{i, j * lanes},
                                              ArrayRef<int64_t>{1, lanes}, ArrayRef<int64_t>{1, 1});
    return vector::ShapeCastOp::create(rewriter, loc, sumType, piece);
  }

  Value dot(Value sum, Value row, Value column) {
    SmallVector<Value> operands{row, column};
    // What is in every lane comes last, except where the signs say the order: it is taken by lane, or broadcast from
    // memory.
    if (!unsignedFirst || rhs.isUnsigned)
      std::swap(operands[0], operands[1]);
    if (adds)
      operands.insert(operands.begin(), sum);
    Value result = LLVM::CallIntrinsicOp::create(rewriter, loc, sumType, intrinsic, operands).getResult(0);
    return adds ? result : arith::AddIOp::create(rewriter, loc, sum, result).getResult();
  }

  StringAttr intrinsic;
  int64_t depth, lanes;
  bool adds, unsignedFirst, bothUnsigned, byLane;
  VectorType sumType;
  /// Registers of A by row and number, in steps that read whole ones.
  DenseMap<std::pair<int64_t, int64_t>, Value> rowsRead;
  /// Groups of rows of B that are computed, by number.
  DenseMap<int64_t, Value> groups;
  /// Groups of rows of B that are read, by number and first register.
  DenseMap<std::pair<int64_t, int64_t>, SmallVector<Value>> interleavedRows;
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
