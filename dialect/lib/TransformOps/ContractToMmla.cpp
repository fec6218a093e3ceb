// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "DotOperands.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// Sums in registers of two rows by half the lanes as columns, and as vectors of rows. LLVM lets a register that is put
/// into rows and taken out again pass as it is.
class Squares {
public:
  /// With `transposed` a register has its columns one after the other.
  Squares(RewriterBase &rewriter, int64_t lanes, bool transposed)
      : rewriter(rewriter), lanes(lanes), transposed(transposed) {}

  /// The registers of `vector`: by pairs of rows, then by columns.
  SmallVector<Value> split(Value vector) {
    Location loc = vector.getLoc();
    auto type = cast<VectorType>(vector.getType());
    SmallVector<Value> squares;
    for (int64_t i = 0; i < type.getDimSize(0); i += 2)
      for (int64_t j = 0; j < type.getDimSize(1); j += lanes) {
        Value upper = rowPiece(vector, i, j), lower = rowPiece(vector, i + 1, j);
        for (int64_t half : {int64_t(0), lanes / 2})
          squares.push_back(vector::ShuffleOp::create(rewriter, loc, upper, lower, squareMask(half)));
      }
    return squares;
  }

  Value join(ValueRange squares, VectorType type, Location loc) {
    Value result = ub::PoisonOp::create(rewriter, loc, type);
    auto pieceType = VectorType::get({1, lanes}, type.getElementType());
    for (int64_t i = 0; i < type.getDimSize(0); i += 2)
      for (int64_t j = 0; j < type.getDimSize(1); j += lanes) {
        for (int64_t row : {0, 1}) {
          Value piece = vector::ShuffleOp::create(rewriter, loc, squares[0], squares[1], rowMask(row));
          piece = vector::ShapeCastOp::create(rewriter, loc, pieceType, piece);
          result = vector::InsertStridedSliceOp::create(rewriter, loc, piece, result, ArrayRef<int64_t>{i + row, j},
                                                        ArrayRef<int64_t>{1, 1});
        }
        squares = squares.drop_front(2);
      }
    return result;
  }

  /// How many registers `type` fills.
  int64_t count(VectorType type) const { return type.getNumElements() / lanes; }

private:
  Value rowPiece(Value vector, int64_t row, int64_t column) {
    Value piece =
        vector::ExtractStridedSliceOp::create(rewriter, vector.getLoc(), vector, ArrayRef<int64_t>{row, column},
                                              ArrayRef<int64_t>{1, lanes}, ArrayRef<int64_t>{1, 1});
    auto type = VectorType::get({lanes}, cast<VectorType>(vector.getType()).getElementType());
    return vector::ShapeCastOp::create(rewriter, vector.getLoc(), type, piece);
  }

  /// From two rows to the square of their columns from `half` on.
  SmallVector<int64_t> squareMask(int64_t half) const {
    SmallVector<int64_t> mask;
    for (int64_t i = 0; i < lanes; ++i) {
      int64_t row = transposed ? i % 2 : i / (lanes / 2), column = transposed ? i / 2 : i % (lanes / 2);
      mask.push_back(row * lanes + half + column);
    }
    return mask;
  }

  /// From two squares side by side to one of their rows.
  SmallVector<int64_t> rowMask(int64_t row) const {
    SmallVector<int64_t> mask;
    for (int64_t column = 0; column < lanes; ++column) {
      int64_t square = column / (lanes / 2), inside = column % (lanes / 2);
      mask.push_back(square * lanes + (transposed ? inside * 2 + row : row * (lanes / 2) + inside));
    }
    return mask;
  }

  RewriterBase &rewriter;
  int64_t lanes;
  bool transposed;
};

/// Lowers one contraction.
class MmlaLowering : DotOperands {
public:
  MmlaLowering(RewriterBase &rewriter, vector::ContractionOp contract, ContractToMmlaOp options)
      : DotOperands(rewriter, contract, options.getElement()), intrinsic(options.getIntrinsicAttr()),
        depth(options.getDepth()), lanes(options.getLanes()), unsignedFirst(options.getUnsignedFirst()),
        bothUnsigned(options.getBothUnsigned()) {}

  /// Whether the instruction does what the contraction says; finds the operands.
  bool fits() {
    return contract.getIndexingMapsArray() == dotFormMaps(rewriter.getContext()) &&
           contract.getKind() == vector::CombiningKind::ADD && contract.getRhsType().getDimSize(1) % lanes == 0 &&
           contract.getRhsType().getDimSize(2) == depth && contract.getLhsType().getDimSize(0) % 2 == 0 &&
           findOperands() && signsFit(unsignedFirst, bothUnsigned);
  }

  /// Whether B comes first in the instruction, which then computes the transposed square.
  bool swapped() const { return unsignedFirst && rhs.isUnsigned; }

  Value lower(Squares &squares) {
    auto type = cast<VectorType>(contract.getAccType());
    SmallVector<Value> sums = squares.split(contract.getAcc());
    int64_t pairs = type.getDimSize(0) / 2, across = type.getDimSize(1) / 2;
    for (int64_t k = 0, groups = contract.getRhsType().getDimSize(0); k < groups; ++k) {
      SmallVector<Value> columns;
      for (int64_t j = 0; j < across; ++j)
        columns.push_back(columnsOf(k, j));
      for (int64_t i = 0; i < pairs; ++i) {
        Value rows = rowsOf(i, k, groups);
        for (auto [j, column] : llvm::enumerate(columns)) {
          Value &sum = sums[i * across + j];
          SmallVector<Value> operands{sum, rows, column};
          if (swapped())
            std::swap(operands[1], operands[2]);
          sum = LLVM::CallIntrinsicOp::create(rewriter, loc, sum.getType(), intrinsic, operands).getResult(0);
        }
      }
    }
    return squares.join(sums, type, loc);
  }

private:
  /// Group `k` of row `i` of A, and the number that it has in what is read of it: two groups fill a register.
  std::pair<Value, int64_t> rowOf(int64_t i, int64_t k, int64_t groups) {
    auto cast = lhs.source.getDefiningOp<vector::ShapeCastOp>();
    vector::TransferReadOp read = cast ? rereadable(cast.getSource()) : nullptr;
    if (!read)
      return {vector::ExtractOp::create(rewriter, loc, lhs.source, ArrayRef<int64_t>{i, k}), 0};
    int64_t together = groups % 2 == 0 ? 2 : 1;
    Value &row = rowsRead[{i, k / together}];
    if (!row)
      row = reread(read, i, k / together * together * depth, together * depth);
    return {row, k % together};
  }

  /// Group `k` of the pair `i` of rows of A, one row after the other.
  Value rowsOf(int64_t i, int64_t k, int64_t groups) {
    // As they lie in panels of pairs, which convert_panels makes.
    auto grouped = lhs.source.getDefiningOp<vector::ShapeCastOp>();
    auto transpose = grouped ? grouped.getSource().getDefiningOp<vector::TransposeOp>() : nullptr;
    auto paired = transpose ? transpose.getVector().getDefiningOp<vector::ShapeCastOp>() : nullptr;
    if (vector::TransferReadOp read = paired ? rereadable(paired.getSource()) : nullptr)
      return reread(read, i, k * 2 * depth, 2 * depth);
    auto [upper, number] = rowOf(2 * i, k, groups);
    Value lower = rowOf(2 * i + 1, k, groups).first;
    int64_t width = cast<VectorType>(upper.getType()).getNumElements();
    SmallVector<int64_t> mask;
    for (int64_t start : {number * depth, width + number * depth})
      llvm::append_range(mask, llvm::seq(start, start + depth));
    return vector::ShuffleOp::create(rewriter, loc, upper, lower, mask);
  }

  /// Group `k` of the pair `j` of columns of B, one column after the other.
  Value columnsOf(int64_t k, int64_t j) {
    if (auto cast = rhs.source.getDefiningOp<vector::ShapeCastOp>())
      if (vector::TransferReadOp read = rereadable(cast.getSource()))
        return reread(read, k, j * 2 * depth, 2 * depth);
    Value group = vector::ExtractStridedSliceOp::create(rewriter, loc, rhs.source, ArrayRef<int64_t>{k, 2 * j, 0},
                                                        ArrayRef<int64_t>{1, 2, depth}, ArrayRef<int64_t>{1, 1, 1});
    return vector::ShapeCastOp::create(rewriter, loc, VectorType::get({2 * depth}, element), group);
  }

  StringAttr intrinsic;
  int64_t depth, lanes;
  bool unsignedFirst, bothUnsigned;
  /// What was read of A, by row and number.
  DenseMap<std::pair<int64_t, int64_t>, Value> rowsRead;
};
} // namespace

/// Lets a loop carry registers in place of the vector `number`.
static void carry(RewriterBase &rewriter, Squares &squares, scf::ForOp loop, unsigned number) {
  auto splitOne = [&](ValueRange values) {
    SmallVector<Value> all(values.take_front(number));
    llvm::append_range(all, squares.split(values[number]));
    llvm::append_range(all, values.drop_front(number + 1));
    return all;
  };
  auto type = cast<VectorType>(loop.getResultTypes()[number]);
  int64_t count = squares.count(type);
  auto joinOne = [&](ValueRange values) {
    SmallVector<Value> all(values.take_front(number));
    all.push_back(squares.join(values.slice(number, count), type, loop.getLoc()));
    llvm::append_range(all, values.drop_front(number + count));
    return all;
  };
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  rewriter.setInsertionPoint(yield);
  rewriter.replaceOpWithNewOp<scf::YieldOp>(yield, splitOne(yield.getOperands()));
  rewriter.setInsertionPoint(loop);
  auto made = scf::ForOp::create(rewriter, loop.getLoc(), loop.getLowerBound(), loop.getUpperBound(), loop.getStep(),
                                 splitOne(loop.getInitArgs()));
  made->setAttrs(loop->getAttrs());
  rewriter.setInsertionPointToStart(made.getBody());
  SmallVector<Value> arguments{made.getInductionVar()};
  llvm::append_range(arguments, joinOne(made.getRegionIterArgs()));
  rewriter.mergeBlocks(loop.getBody(), made.getBody(), arguments);
  rewriter.setInsertionPointAfter(made);
  rewriter.replaceOp(loop, joinOne(made.getResults()));
}

DiagnosedSilenceableFailure ContractToMmlaOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                         transform::ApplyToEachResultList &results,
                                                         transform::TransformState &state) {
  SmallVector<vector::ContractionOp> contracts;
  target->walk([&](vector::ContractionOp contract) { contracts.push_back(contract); });
  for (vector::ContractionOp contract : contracts) {
    rewriter.setInsertionPoint(contract);
    MmlaLowering lowering(rewriter, contract, *this);
    if (!lowering.fits())
      continue;
    Squares squares(rewriter, getLanes(), lowering.swapped());
    auto sums = dyn_cast<BlockArgument>(contract.getAcc());
    auto loop = dyn_cast<scf::ForOp>(contract->getParentOp());
    bool carried = loop && sums && sums.getOwner() == loop.getBody() && sums != loop.getInductionVar();
    rewriter.replaceOp(contract, lowering.lower(squares));
    if (carried)
      carry(rewriter, squares, loop, sums.getArgNumber() - loop.getNumInductionVars());
  }
  return DiagnosedSilenceableFailure::success();
}

void ContractToMmlaOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
