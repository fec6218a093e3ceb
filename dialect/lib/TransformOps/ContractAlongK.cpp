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
    SmallVector<AffineMap> maps = contract.getIndexingMapsArray(), expected = productMaps(rewriter.getContext());
    isStaged = maps[1] != expected[1];
    if (isStaged)
      expected[1] = AffineMap::get(3, 0, {expected[1].getResult(1), expected[1].getResult(0)}, rewriter.getContext());
    if (maps != expected || contract.getKind() != vector::CombiningKind::ADD)
      return false;
    std::optional<Source> left = source(contract.getLhs()), right = source(contract.getRhs());
    if (!left || !right)
      return false;
    lhs = *left;
    rhs = *right;
    if (isStaged && rhs.isComputed)
      return false;
    auto type = cast<VectorType>(contract.getAccType());
    rows = type.getDimSize(0);
    columns = type.getDimSize(1);
    width = contract.getLhsType().getDimSize(1);
    sum = type.getElementType();
    byIntrinsic = intrinsicFits();
    flips = byIntrinsic && options.getFlip();
    byTable = tableFits();
    if (options.getLookup() && !byTable && rhs.isComputed) // Nothing else reads in that order.
      return false;
    // Each multiplication waits for the one before it that adds to the same sums; those of a block begin anew.
    if (byTable && !PadFunction::hasFactor(PadFunction::producerOf(rhs.read.getBase())))
      chains = std::clamp<int64_t>(sumsInFlight / (rows * columns), 1, options.getWays());
    return width % (lanes * depth()) == 0;
  }

  /// How many vectors of partial sums it has: with inverted signs also what these add to those of a column.
  int64_t count() const { return rows * columns * chains + (flips ? columns : 0); }

  SmallVector<Value> zeros() {
    auto type = VectorType::get({lanes}, sum);
    Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    return SmallVector<Value>(count(), zero);
  }

  /// The sums that a value before it is the total of, or none yet beside that value.
  Sums startingFrom(Value value, const DenseMap<Value, Sums> &known) {
    auto before = known.find(value);
    bool isKnown = before != known.end() && before->second.partial.size() == static_cast<size_t>(count());
    return isKnown ? before->second : Sums{value, zeros()};
  }

  /// The partial sums after the contraction, computed at the insertion point.
  SmallVector<Value> add(SmallVector<Value> partial) {
    int64_t step = lanes * depth();
    assert(partial.size() == static_cast<size_t>(count()) && "as the loop carries");
    readFrom(lhs, functions[0]);
    readFrom(rhs, functions[1]);
    if (byTable)
      return addByTable(std::move(partial));
    if (rhs.isComputed)
      return addComputed(std::move(partial), step);
    for (int64_t k = 0; k < width; k += step) {
      SmallVector<Value> right;
      for (int64_t j = 0; j < columns; ++j) {
        right.push_back(along(rhs, k, j, step));
        if (flips)
          partial[rows * columns + j] = multiplied(signBits(step), right.back(), partial[rows * columns + j]);
      }
      for (int64_t i = 0; i < rows; ++i) {
        Value left = along(lhs, i, k, step);
        if (flips)
          left = arith::XOrIOp::create(rewriter, loc, left, signBits(step));
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
    SmallVector<Value> partial;
    for (int64_t i = 0; i < rows * columns; ++i) {
      Value sum = sums.partial[i * chains];
      for (int64_t chain = 1; chain < chains; ++chain)
        sum = added(sum, sums.partial[i * chains + chain]);
      if (flips)
        sum = arith::SubIOp::create(rewriter, loc, sum, sums.partial[rows * columns + i % columns]);
      partial.push_back(sum);
    }
    return added(sums.init, hasBlocks() ? addedInBlocks(partial) : addedEach(partial));
  }

private:
  /// Sums of one instruction that are on their way at once, at least: its latency by how many start in a cycle.
  static constexpr int64_t sumsInFlight = 8;

  /// Whether elements of B can be looked up: those of whole blocks, and none that are beyond the last one.
  bool tableFits() {
    if (!options.getLookup() || !rhs.isComputed || width % options.getBlock() != 0 || !rhs.read.isDimInBounds(0) ||
        !lhs.read.isDimInBounds(1) || !isa<FloatType>(sum))
      return false;
    return isOfCodes(PadFunction::producerOf(rhs.read.getBase()));
  }

  bool isOfCodes(linalg::GenericOp generic) {
    return PadFunction::isOfCodes(generic, options.getBlock(), options.getWays());
  }

  /// The partial sums after the contraction, with a B that is computed: all of a column at once, as narrow elements
  /// fill a register.
  SmallVector<Value> addComputed(SmallVector<Value> partial, int64_t step) {
    SmallVector<SmallVector<Value>> left;
    for (int64_t i = 0; i < rows; ++i)
      left.push_back(piecesOf(along(lhs, i, 0, width), step));
    for (int64_t j = 0; j < columns; ++j) {
      SmallVector<Value> right = piecesOf(along(rhs, 0, j, width), step);
      for (int64_t i = 0; i < rows; ++i)
        for (auto [l, r] : llvm::zip_equal(left[i], right)) {
          Value &each = partial[i * columns + j];
          each = multiplied(l, r, each);
        }
    }
    return partial;
  }

  /// A vector in pieces of `step` elements.
  SmallVector<Value> piecesOf(Value vector, int64_t step) {
    if (width == step)
      return {vector};
    SmallVector<Value> pieces;
    for (int64_t k = 0; k < width; k += step)
      pieces.push_back(vector::ExtractStridedSliceOp::create(rewriter, loc, vector, ArrayRef<int64_t>{k},
                                                             ArrayRef<int64_t>{step}, ArrayRef<int64_t>{1}));
    return pieces;
  }

  /// The partial sums after the contraction, with elements of B that are looked up.
  SmallVector<Value> addByTable(SmallVector<Value> partial) {
    int64_t block = options.getBlock(), ways = options.getWays(), size = block / ways, step = lanes * depth();
    auto part = [&](Value vector, int64_t start) -> Value {
      if (size == step)
        return vector;
      return vector::ExtractStridedSliceOp::create(rewriter, loc, vector, ArrayRef<int64_t>{start},
                                                   ArrayRef<int64_t>{step}, ArrayRef<int64_t>{1});
    };
    for (int64_t k = 0; k < width; k += block) {
      SmallVector<SmallVector<Value>> left(rows);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t way = 0; way < ways; ++way)
          left[i].push_back(along(lhs, i, k + way * size, size));
      for (int64_t j = 0; j < columns; ++j) {
        std::array<Value, 2> at = placeOf(rhs, k, j);
        Value words = functions[1]->words(at, block, ways), table = tableOf(at, size, words.getType());
        Value factor = functions[1]->factor(at, lanes);
        SmallVector<Value> sums = factor ? zeros() : partial;
        for (int64_t way = 0; way < ways; ++way) {
          Value right = lookedUp(table, words, way);
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t start = 0; start < size; start += step) {
              Value &each = sums[(i * columns + j) * chains + (way * (size / step) + start / step) % chains];
              each = multiplied(part(left[i][way], start), part(right, start), each);
            }
        }
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t each = (i * columns + j) * chains, end = each + chains; each < end; ++each)
            partial[each] =
                factor ? vector::FMAOp::create(rewriter, loc, sums[each], factor, partial[each]) : sums[each];
      }
    }
    return partial;
  }

  /// The table for a block, repeated until it fills a register: no index is beyond it, whatever its upper bits are.
  Value tableOf(std::array<Value, 2> at, int64_t size, Type words) {
    Value table = functions[1]->table(at);
    int64_t codes = cast<VectorType>(table.getType()).getNumElements();
    SmallVector<int64_t> repeated;
    for (int64_t i = 0; i < size; ++i)
      repeated.push_back(i % codes);
    if (size != codes)
      table = vector::ShuffleOp::create(rewriter, loc, table, table, repeated);
    return vector::BitCastOp::create(rewriter, loc, cast<VectorType>(words), table);
  }

  /// Element number `way` of each of `words` in the table.
  Value lookedUp(Value table, Value words, int64_t way) {
    auto type = cast<VectorType>(words.getType());
    if (way > 0) {
      auto bits =
          rewriter.getIntegerAttr(type.getElementType(), way * type.getElementTypeBitWidth() / options.getWays());
      Value by = arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, bits));
      words = arith::ShRUIOp::create(rewriter, loc, words, by);
    }
    Value found = LLVM::CallIntrinsicOp::create(rewriter, loc, type, options.getLookupAttr(), ValueRange{table, words})
                      .getResult(0);
    return extended(rhs,
                    vector::BitCastOp::create(rewriter, loc, VectorType::get(type.getShape(), rhs.element()), found));
  }

  Value added(Value left, Value right) {
    if (isa<FloatType>(sum))
      return arith::AddFOp::create(rewriter, loc, left, right);
    return arith::AddIOp::create(rewriter, loc, left, right);
  }

  /// The sum of the elements of each vector, by itself.
  Value addedEach(ArrayRef<Value> partial) {
    SmallVector<Value> scalars;
    // In pairs, and not one after the other: the sums have no order to begin with.
    for (Value each : partial)
      scalars.push_back(
          vector::ReductionOp::create(rewriter, loc, vector::CombiningKind::ADD, each, arith::FastMathFlags::reassoc));
    return vector::FromElementsOp::create(rewriter, loc, cast<VectorType>(contract.getAccType()), scalars);
  }

  int64_t inBlock() { return options.getBlocks().value_or(0) / sum.getIntOrFloatBitWidth(); }

  /// Whether a vector has whole blocks, whose number can be halved until there is one. One sum alone is added up so
  /// too: what it is does not depend on how many there are.
  bool hasBlocks() {
    int64_t size = inBlock();
    return size > 1 && llvm::isPowerOf2_64(size) && lanes % size == 0 && llvm::isPowerOf2_64(lanes / size);
  }

  /// The sums of the elements of each vector, of as many at a time as a block has elements: of each row of the result,
  /// or of its only column.
  Value addedInBlocks(ArrayRef<Value> partial) {
    auto type = cast<VectorType>(contract.getAccType());
    Value all = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    bool isColumn = columns == 1;
    int64_t length = isColumn ? rows : columns;
    for (int64_t line = 0; line < rows * columns / length; ++line)
      for (int64_t at = 0; at < length; at += inBlock()) {
        int64_t count = std::min(inBlock(), length - at);
        Value sums = addedTogether(partial.slice(line * length + at, count));
        for (int64_t i = 0; i < (isColumn ? count : 0); ++i)
          all = vector::InsertOp::create(rewriter, loc, vector::ExtractOp::create(rewriter, loc, sums, i), all,
                                         ArrayRef<int64_t>{at + i, 0});
        if (isColumn)
          continue;
        if (count < inBlock())
          sums = vector::ExtractStridedSliceOp::create(rewriter, loc, sums, ArrayRef<int64_t>{0},
                                                       ArrayRef<int64_t>{count}, ArrayRef<int64_t>{1});
        all = vector::InsertStridedSliceOp::create(rewriter, loc, sums, all, ArrayRef<int64_t>{line, at},
                                                   ArrayRef<int64_t>{1});
      }
    return all;
  }

  /// A block with the sum of the elements of each vector; what comes after those is of no use.
  Value addedTogether(ArrayRef<Value> partial) {
    SmallVector<Value> left(partial);
    for (int64_t size = inBlock(); size > 1; size /= 2) {
      SmallVector<Value> pairs;
      for (size_t i = 0; i < left.size(); i += 2)
        pairs.push_back(addedInPairs(left[i], left[std::min(i + 1, left.size() - 1)]));
      left = pairs;
    }
    Value sums = left.front();
    for (int64_t size = lanes / 2; size >= inBlock(); size /= 2) {
      auto half = [&](int64_t start) {
        return vector::ExtractStridedSliceOp::create(rewriter, loc, sums, ArrayRef<int64_t>{start},
                                                     ArrayRef<int64_t>{size}, ArrayRef<int64_t>{1});
      };
      sums = added(half(0), half(size));
    }
    return sums;
  }

  /// In each block the sums of pairs of neighbors of the block of one vector, and then of the other.
  Value addedInPairs(Value first, Value second) {
    int64_t size = inBlock();
    SmallVector<int64_t> even;
    for (int64_t block = 0; block < lanes; block += size)
      for (int64_t i = 0; i < size; ++i)
        even.push_back((i < size / 2 ? 0 : lanes) + block + i % (size / 2) * 2);
    auto odd = llvm::map_to_vector(even, [](int64_t at) { return at + 1; });
    return added(vector::ShuffleOp::create(rewriter, loc, first, second, even),
                 vector::ShuffleOp::create(rewriter, loc, first, second, odd));
  }

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
    bool isReadable = !isComputed || (options.getLookup() && isOfCodes(generic)) ||
                      PadFunction::unsupported(generic, /*transposed=*/across == 1).empty();
    if (!isReadable || (isComputed && !read.isDimInBounds(across)))
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
    function.emplace(rewriter, loc, base, sizes, from.read.getPadding(), /*transposed=*/from.read == rhs.read,
                     /*unit=*/lanes * depth());
  }

  /// The highest bit of each of `count` elements: what inverts their signs, and what an element of A grows by then.
  Value signBits(int64_t count) {
    auto type = VectorType::get({count}, lhs.element());
    auto bit = rewriter.getIntegerAttr(type.getElementType(), APInt::getSignMask(type.getElementTypeBitWidth()));
    return arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, Attribute(bit)));
  }

  bool intrinsicFits() {
    if (!options.getIntrinsic() || width % (lanes * options.getDepth()) != 0 ||
        lhs.element() != *options.getElement() || rhs.element() != *options.getElement())
      return false;
    bool isAsStored = lhs.element().isInteger() && !options.getStorage() && !lhs.isComputed && !rhs.isComputed;
    if (options.getFlip() && !isAsStored)
      return false;
    if (options.getStorage())
      return true;
    bool isLeftUnsigned = lhs.isUnsigned() != options.getFlip();
    if (options.getUnsignedFirst())
      return isLeftUnsigned != rhs.isUnsigned();
    return isLeftUnsigned == options.getBothUnsigned() && rhs.isUnsigned() == options.getBothUnsigned();
  }

  /// `count` elements along k of the matrix that `from` reads, from (row, column) of the product's operand on.
  Value along(Source &from, int64_t row, int64_t column, int64_t count) {
    bool isLhs = from.read == lhs.read, isTurned = !isLhs && isStaged;
    unsigned axis = isLhs || isTurned ? 1 : 0;
    std::array<Value, 2> at = isTurned ? placeOf(from, column, row) : placeOf(from, row, column);
    if (std::optional<PadFunction> &function = functions[isLhs ? 0 : 1])
      return extended(from, function->read(at, axis, count, from.read.isDimInBounds(axis), true));
    SmallVector<Value> indices(at.begin(), at.end());
    Value base = from.read.getBase();
    auto map = AffineMap::get(2, 0, {rewriter.getAffineDimExpr(axis)}, rewriter.getContext());
    // A matrix of one column is a vector.
    if (axis == 0 && cast<RankedTensorType>(base.getType()).getDimSize(1) == 1) {
      base = tensor::CollapseShapeOp::create(rewriter, loc, base, ArrayRef<ReassociationIndices>{{0, 1}});
      indices.pop_back();
      map = AffineMap::get(1, 0, {rewriter.getAffineDimExpr(0)}, rewriter.getContext());
    }
    auto type = VectorType::get({count}, from.element());
    Value read = vector::TransferReadOp::create(rewriter, loc, type, base, indices, AffineMapAttr::get(map),
                                                from.read.getPadding(), /*mask=*/Value(),
                                                rewriter.getBoolArrayAttr({from.read.isDimInBounds(axis)}));
    return extended(from, read);
  }

  /// Where (row, column) of a vector is in the matrix that it is read from.
  std::array<Value, 2> placeOf(Source &from, int64_t row, int64_t column) {
    std::array<Value, 2> at{from.read.getIndices()[0], from.read.getIndices()[1]};
    AffineExpr index = rewriter.getAffineDimExpr(0);
    for (auto [position, by] : {std::pair{0, row}, std::pair{1, column}})
      at[position] = getValueOrCreateConstantIndexOp(
          rewriter, loc,
          affine::makeComposedFoldedAffineApply(rewriter, loc, index + by, getAsOpFoldResult(at[position])));
    return at;
  }

  /// What was read as it is multiplied: as the instruction takes it, or in the type of the sums.
  Value extended(Source &from, Value read) {
    Type wide = byIntrinsic ? options.getStorage().value_or(from.element()) : sum;
    if (!from.extension || wide == from.element())
      return read;
    auto type = VectorType::get(cast<VectorType>(read.getType()).getShape(), wide);
    OperationState state(loc, from.extension->getName(), read, type);
    return rewriter.create(state)->getResult(0);
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
  /// Whether k goes along the rows of B: it was staged so.
  bool isStaged = false;
  bool byIntrinsic = false, byTable = false, flips = false;
  int64_t chains = 1;
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
      rewriter.setInsertionPoint(loop);
      sums = along.startingFrom(loop.getInitArgs()[number], known);
      auto grown = cast<scf::ForOp>(
          *loop.replaceWithAdditionalYields(rewriter, sums.partial, /*replaceInitOperandUsesInLoop=*/false,
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
    rewriter.setInsertionPoint(contract);
    sums = along.startingFrom(contract.getAcc(), known);
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
