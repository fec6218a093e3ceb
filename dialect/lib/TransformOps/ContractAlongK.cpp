// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "PadFunction.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// Where an operand of a contraction comes from.
struct Source {
  vector::TransferReadOp read;
  /// What widens its elements; null where nothing does.
  Operation *extension;
  /// Whether it is what a prologue makes of a tensor, which is computed where it is read.
  bool isComputed;

  Type element() { return read.getVectorType().getElementType(); }
  bool isUnsigned() { return isa_and_nonnull<arith::ExtUIOp>(extension); }
};

/// The sums of a contraction: those before it, and what is added to each in the end.
struct Sums {
  Value init;
  SmallVector<Value> partial;
};

/// Computes one contraction in vectors along k.
class AlongK {
public:
  AlongK(RewriterBase &rewriter, vector::ContractionOp contract, ContractAlongKOp options)
      : rewriter(rewriter), contract(contract), options(options), loc(contract.getLoc()), lanes(options.getLanes()) {}

  /// Whether the contraction is of the right form; finds its operands, and whether the instruction can multiply them.
  bool fits() {
    if (contract.getIndexingMapsArray() != productMaps(rewriter.getContext()) ||
        contract.getKind() != vector::CombiningKind::ADD)
      return false;
    std::optional<Source> left = source(contract.getLhs()), right = source(contract.getRhs());
    if (!left || !right)
      return false;
    lhs = *left;
    rhs = *right;
    auto type = cast<VectorType>(contract.getAccType());
    rows = type.getDimSize(0);
    columns = type.getDimSize(1);
    width = contract.getLhsType().getDimSize(1);
    sum = type.getElementType();
    byIntrinsic = intrinsicFits();
    return width % (lanes * depth()) == 0;
  }

  /// How many sums it has.
  int64_t count() const { return rows * columns; }

  SmallVector<Value> zeros() {
    auto type = VectorType::get({lanes}, sum);
    Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    return SmallVector<Value>(count(), zero);
  }

  /// The partial sums after the contraction, computed at the insertion point.
  SmallVector<Value> add(SmallVector<Value> partial) {
    int64_t step = lanes * depth();
    readFrom(lhs, functions[0]);
    readFrom(rhs, functions[1]);
    for (int64_t k = 0; k < width; k += step) {
      SmallVector<Value> right;
      for (int64_t j = 0; j < columns; ++j)
        right.push_back(along(rhs, k, j, step));
      for (int64_t i = 0; i < rows; ++i) {
        Value left = along(lhs, i, k, step);
        for (int64_t j = 0; j < columns; ++j) {
          Value &each = partial[i * columns + j];
          each = multiplied(left, right[j], each);
        }
      }
    }
    return partial;
  }

  /// The sums as the contraction has them.
  Value total(const Sums &sums) {
    SmallVector<Value> scalars;
    for (Value each : sums.partial)
      scalars.push_back(vector::ReductionOp::create(rewriter, loc, vector::CombiningKind::ADD, each));
    auto type = cast<VectorType>(contract.getAccType());
    Value added = vector::FromElementsOp::create(rewriter, loc, type, scalars);
    if (isa<FloatType>(sum))
      return arith::AddFOp::create(rewriter, loc, sums.init, added);
    return arith::AddIOp::create(rewriter, loc, sums.init, added);
  }

private:
  int64_t depth() { return byIntrinsic ? options.getDepth() : 1; }

  /// A read of a matrix, in order, that other steps do not write to.
  std::optional<Source> source(Value operand) {
    Operation *extension = extensionOf(operand);
    auto read = (extension ? extension->getOperand(0) : operand).getDefiningOp<vector::TransferReadOp>();
    if (!read || read.getMask() || !isa<RankedTensorType>(read.getShapedType()) ||
        read.getVectorType().getRank() != 2 || read.getShapedType().getRank() != 2 ||
        !read.getPermutationMap().isMinorIdentity())
      return std::nullopt;
    linalg::GenericOp generic = PadFunction::producerOf(read.getBase());
    bool isComputed = generic && generic->hasAttr("own_batch");
    // The elements across that there are not have no place in a prologue's operands.
    unsigned across = operand == contract.getLhs() ? 0 : 1;
    if (isComputed && (!PadFunction::unsupported(generic, /*transposed=*/across == 1).empty() ||
                       !read.isDimInBounds(across)))
      return std::nullopt;
    return Source{read, extension, isComputed};
  }

  void readFrom(Source &from, std::optional<PadFunction> &function) {
    function.reset();
    if (!from.isComputed)
      return;
    Value base = from.read.getBase();
    std::array<Value, 2> sizes;
    for (unsigned dim : {0, 1})
      sizes[dim] = getValueOrCreateConstantIndexOp(rewriter, loc, tensor::getMixedSize(rewriter, loc, base, dim));
    function.emplace(rewriter, loc, base, sizes, from.read.getPadding(), /*transposed=*/from.read == rhs.read, /*unit=*/lanes * depth());
  }

  bool intrinsicFits() {
    if (!options.getIntrinsic() || width % (lanes * options.getDepth()) != 0 ||
        lhs.element() != *options.getElement() || rhs.element() != *options.getElement())
      return false;
    if (options.getStorage())
      return true;
    if (options.getUnsignedFirst())
      return lhs.isUnsigned() != rhs.isUnsigned();
    return lhs.isUnsigned() == options.getBothUnsigned() && rhs.isUnsigned() == options.getBothUnsigned();
  }

  /// `count` elements along k of the matrix that `from` reads, from (row, column) of its vector on.
  Value along(Source &from, int64_t row, int64_t column, int64_t count) {
    bool isLhs = from.read == lhs.read;
    unsigned axis = isLhs ? 1 : 0;
    SmallVector<Value> indices(from.read.getIndices());
    AffineExpr index = rewriter.getAffineDimExpr(0);
    for (auto [position, by] : {std::pair{0, row}, std::pair{1, column}})
      indices[position] = getValueOrCreateConstantIndexOp(
          rewriter, loc,
          affine::makeComposedFoldedAffineApply(rewriter, loc, index + by, getAsOpFoldResult(indices[position])));
    auto extended = [&](Value read) -> Value {
      Type wide = byIntrinsic ? options.getStorage().value_or(from.element()) : sum;
      if (!from.extension || wide == from.element())
        return read;
      OperationState state(loc, from.extension->getName(), read, VectorType::get({count}, wide));
      return rewriter.create(state)->getResult(0);
    };
    if (std::optional<PadFunction> &function = functions[isLhs ? 0 : 1])
      return extended(function->read({indices[0], indices[1]}, axis, count, from.read.isDimInBounds(axis), true));
    Value base = from.read.getBase();
    auto map = AffineMap::get(2, 0, {rewriter.getAffineDimExpr(axis)}, rewriter.getContext());
    // A matrix of one column is a vector.
    if (!isLhs && cast<RankedTensorType>(base.getType()).getDimSize(1) == 1) {
      base = tensor::CollapseShapeOp::create(rewriter, loc, base, ArrayRef<ReassociationIndices>{{0, 1}});
      indices.pop_back();
      map = AffineMap::get(1, 0, {rewriter.getAffineDimExpr(0)}, rewriter.getContext());
    }
    auto type = VectorType::get({count}, from.element());
    Value read = vector::TransferReadOp::create(rewriter, loc, type, base, indices, AffineMapAttr::get(map),
                                                from.read.getPadding(), /*mask=*/Value(),
                                                rewriter.getBoolArrayAttr({from.read.isDimInBounds(axis)}));
    return extended(read);
  }

  Value multiplied(Value left, Value right, Value to) {
    if (byIntrinsic) {
      SmallVector<Value> operands{left, right};
      if (options.getUnsignedFirst() && rhs.isUnsigned())
        std::swap(operands[0], operands[1]);
      if (options.getAdds())
        operands.insert(operands.begin(), to);
      Value result =
          LLVM::CallIntrinsicOp::create(rewriter, loc, to.getType(), options.getIntrinsicAttr(), operands).getResult(0);
      return options.getAdds() ? result : arith::AddIOp::create(rewriter, loc, to, result).getResult();
    }
    if (isa<FloatType>(sum))
      return vector::FMAOp::create(rewriter, loc, left, right, to);
    return arith::AddIOp::create(rewriter, loc, to, arith::MulIOp::create(rewriter, loc, left, right));
  }

  RewriterBase &rewriter;
  vector::ContractionOp contract;
  ContractAlongKOp options;
  Location loc;
  int64_t lanes;
  Source lhs, rhs;
  std::array<std::optional<PadFunction>, 2> functions;
  int64_t rows, columns, width;
  Type sum;
  bool byIntrinsic = false;
};
} // namespace

/// The loop that carries what the contraction adds to, and yields nothing else in its place; null where there is none.
static scf::ForOp loopOf(vector::ContractionOp contract) {
  auto sums = dyn_cast<BlockArgument>(contract.getAcc());
  auto loop = dyn_cast<scf::ForOp>(contract->getParentOp());
  if (!loop || !sums || sums.getOwner() != loop.getBody() || sums == loop.getInductionVar())
    return nullptr;
  unsigned number = sums.getArgNumber() - loop.getNumInductionVars();
  bool isCarried = loop.getYieldedValues()[number] == contract.getResult() && contract->hasOneUse() && sums.hasOneUse();
  return isCarried ? loop : nullptr;
}

DiagnosedSilenceableFailure ContractAlongKOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                         transform::ApplyToEachResultList &results,
                                                         transform::TransformState &state) {
  SmallVector<vector::ContractionOp> contracts;
  target->walk([&](vector::ContractionOp contract) { contracts.push_back(contract); });
  DenseMap<Value, Sums> known;
  for (vector::ContractionOp contract : contracts) {
    AlongK along(rewriter, contract, *this);
    if (!along.fits())
      continue;
    Sums sums;
    if (scf::ForOp loop = loopOf(contract)) {
      unsigned number = cast<BlockArgument>(contract.getAcc()).getArgNumber() - loop.getNumInductionVars();
      sums.init = loop.getInitArgs()[number];
      rewriter.setInsertionPoint(loop);
      auto grown = cast<scf::ForOp>(
          *loop.replaceWithAdditionalYields(rewriter, along.zeros(), /*replaceInitOperandUsesInLoop=*/false,
                                            [&](OpBuilder &, Location, ArrayRef<BlockArgument> partial) {
                                              rewriter.setInsertionPoint(contract);
                                              return along.add(SmallVector<Value>(partial.begin(), partial.end()));
                                            }));
      // The loop hands on what it was given, which is then no concern of its own.
      rewriter.replaceAllUsesWith(contract.getResult(), grown.getRegionIterArgs()[number]);
      sums.partial = llvm::to_vector_of<Value>(grown.getResults().take_back(along.count()));
      rewriter.setInsertionPointAfter(grown);
      Value total = along.total(sums);
      rewriter.replaceAllUsesWith(grown.getResult(number), total);
      known[total] = sums;
      rewriter.eraseOp(contract);
      continue;
    }
    auto before = known.find(contract.getAcc());
    rewriter.setInsertionPoint(contract);
    sums = before != known.end() ? before->second : Sums{contract.getAcc(), along.zeros()};
    sums.partial = along.add(sums.partial);
    Value total = along.total(sums);
    rewriter.replaceOp(contract, total);
    known[total] = sums;
  }
  return DiagnosedSilenceableFailure::success();
}

void ContractAlongKOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
