// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;

SmallVector<AffineMap> tilewright::productMaps(MLIRContext *context) {
  AffineExpr m, n, k;
  bindDims(context, m, n, k);
  return AffineMap::inferFromExprList({ArrayRef<AffineExpr>{m, k}, {k, n}, {m, n}}, context);
}

SmallVector<AffineMap> tilewright::dotFormMaps(MLIRContext *context) {
  AffineExpr m, n, ko, ki;
  bindDims(context, m, n, ko, ki);
  return {AffineMap::get(4, 0, {m, ko, ki}, context), AffineMap::get(4, 0, {ko, n, ki}, context),
          AffineMap::get(4, 0, {m, n}, context)};
}

SmallVector<Value> tilewright::extendedAlike(ArrayRef<Value> vectors) {
  auto sourceOf = [](Value vector) {
    auto extension = vector.getDefiningOp<arith::ExtFOp>();
    return extension ? extension.getIn() : Value();
  };
  Value first = sourceOf(vectors.front());
  SmallVector<Value> sources;
  for (Value vector : vectors) {
    Value source = sourceOf(vector);
    if (!source || source.getType() != first.getType())
      return {};
    sources.push_back(source);
  }
  return sources;
}

/// The vector of which each of `rows` has every `rows.size()`-th element; null when there is none.
static Value takenApart(ArrayRef<Value> rows) {
  auto first = rows.front().getDefiningOp<vector::ShuffleOp>();
  int64_t count = rows.size();
  bool same = first && first.getV1() == first.getV2() &&
              first.getV1VectorType().getDimSize(0) == count * first.getResultVectorType().getDimSize(0) &&
              llvm::all_of(llvm::enumerate(rows), [&](auto each) {
                auto shuffle = each.value().template getDefiningOp<vector::ShuffleOp>();
                return shuffle && shuffle.getV1() == first.getV1() &&
                       llvm::all_of(llvm::enumerate(shuffle.getMask()), [&](auto at) {
                         return at.value() == int64_t(at.index()) * count + int64_t(each.index());
                       });
              });
  return same ? first.getV1() : Value();
}

Value tilewright::interleaved(OpBuilder &builder, Location loc, ArrayRef<Value> rows) {
  if (rows.size() == 1)
    return rows.front();
  if (Value whole = takenApart(rows))
    return whole;
  if (SmallVector<Value> narrow = extendedAlike(rows); !narrow.empty()) {
    Value block = interleaved(builder, loc, narrow);
    Type element = cast<VectorType>(rows.front().getType()).getElementType();
    return arith::ExtFOp::create(builder, loc, cast<VectorType>(block.getType()).clone(element), block);
  }
  SmallVector<Value> even, odd;
  for (auto [i, row] : llvm::enumerate(rows))
    (i % 2 == 0 ? even : odd).push_back(row);
  return vector::InterleaveOp::create(builder, loc, interleaved(builder, loc, even), interleaved(builder, loc, odd));
}

/// The longest registers, in bits.
constexpr int64_t longestRegister = 512;

/// Half of the interleave of two vectors, the first one or, with `high`, the second one.
static Value interleavedHalf(OpBuilder &builder, Location loc, Value even, Value odd, bool high) {
  int64_t width = cast<VectorType>(even.getType()).getDimSize(0);
  SmallVector<int64_t> mask;
  for (int64_t i = 0; i < width; ++i)
    mask.push_back(high * width / 2 + i / 2 + i % 2 * width);
  return vector::ShuffleOp::create(builder, loc, even, odd, mask);
}

/// The interleave of whole registers, one after the other: pairs, and then words of what was paired.
static SmallVector<Value> interleavedByWords(OpBuilder &builder, Location loc, ArrayRef<Value> rows) {
  if (rows.size() == 1)
    return {rows.front()};
  auto type = cast<VectorType>(rows.front().getType());
  auto words = VectorType::get({type.getDimSize(0) / 2}, builder.getIntegerType(2 * type.getElementTypeBitWidth()));
  SmallVector<Value> registers;
  for (bool high : {false, true}) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < rows.size(); i += 2)
      pairs.push_back(interleavedHalf(builder, loc, rows[i], rows[i + 1], high));
    if (pairs.size() > 1)
      for (Value &pair : pairs)
        pair = vector::BitCastOp::create(builder, loc, words, pair);
    for (Value each : interleavedByWords(builder, loc, pairs))
      registers.push_back(each.getType() == type ? each : vector::BitCastOp::create(builder, loc, type, each));
  }
  return registers;
}

SmallVector<Value> tilewright::interleavedRegisters(OpBuilder &builder, Location loc, ArrayRef<Value> rows) {
  auto type = cast<VectorType>(rows.front().getType());
  bool whole = type.getDimSize(0) * type.getElementTypeBitWidth() == longestRegister;
  if (rows.size() <= 2 || !whole || takenApart(rows) || !extendedAlike(rows).empty())
    return {interleaved(builder, loc, rows)};
  return interleavedByWords(builder, loc, rows);
}

/// `op` again, applied to `value`, with elements of type `element` as its result.
static Value extend(RewriterBase &rewriter, Location loc, OperationName op, Value value, Type element) {
  OperationState state(loc, op, value, cast<VectorType>(value.getType()).clone(element));
  return rewriter.create(state)->getResult(0);
}

namespace {
/// An operand of a contraction before it is extended, and how it is.
struct Extended {
  Value source;
  OperationName op;
};

/// One contraction on its way into dot form.
class Grouping {
public:
  Grouping(RewriterBase &rewriter, vector::ContractionOp contract, DotFormOp options)
      : rewriter(rewriter), contract(contract), loc(contract.getLoc()), depth(options.getDepth()),
        storage(options.getStorage()), sum(cast<VectorType>(contract.getAccType()).getElementType()) {}

  /// (m, k) as (m, ko, ki).
  Value groupLhs(Extended operand) {
    operand = stored(operand);
    ArrayRef<int64_t> shape = cast<VectorType>(operand.source.getType()).getShape();
    return extend(rewriter, loc, operand.op, reshape(operand.source, {shape[0], shape[1] / depth, depth}), sum);
  }

  /// (k, n) as (ko, n, ki).
  Value groupRhs(Extended operand) {
    operand = stored(operand);
    ArrayRef<int64_t> shape = cast<VectorType>(operand.source.getType()).getShape();
    Value grouped = reshape(operand.source, {shape[0] / depth, depth, shape[1]});
    Value transposed = vector::TransposeOp::create(rewriter, loc, grouped, ArrayRef<int64_t>{0, 2, 1});
    return extend(rewriter, loc, operand.op, transposed, sum);
  }

  Value product(Value lhs, Value rhs, Value accumulator) {
    using vector::IteratorType;
    SmallVector<Attribute> iterators;
    for (IteratorType type :
         {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction, IteratorType::reduction})
      iterators.push_back(vector::IteratorTypeAttr::get(rewriter.getContext(), type));
    return vector::ContractionOp::create(rewriter, loc, lhs, rhs, accumulator,
                                         rewriter.getAffineMapArrayAttr(dotFormMaps(rewriter.getContext())),
                                         rewriter.getArrayAttr(iterators));
  }

private:
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    auto type = VectorType::get(shape, cast<VectorType>(value.getType()).getElementType());
    return vector::ShapeCastOp::create(rewriter, loc, type, value);
  }

  /// The operand extended to the storage type only; from there on it is signed.
  Extended stored(Extended operand) {
    if (!storage)
      return operand;
    Value source = extend(rewriter, loc, operand.op, operand.source, *storage);
    OperationName rest = operand.op;
    if (isa<IntegerType>(*storage))
      rest = OperationName(arith::ExtSIOp::getOperationName(), rewriter.getContext());
    return {source, rest};
  }

  RewriterBase &rewriter;
  vector::ContractionOp contract;
  Location loc;
  int64_t depth;
  std::optional<Type> storage;
  Type sum;
};
} // namespace

/// The operand as extended from `element`; nothing when it is not.
static std::optional<Extended> extendedFrom(Value operand, Type element) {
  Operation *op = extensionOf(operand);
  if (!op || getElementTypeOrSelf(op->getOperand(0).getType()) != element)
    return std::nullopt;
  return Extended{op->getOperand(0), op->getName()};
}

/// The allocation or argument that `base` is, or is a view of.
static Value rootOf(Value base) {
  while (auto view = base.getDefiningOp<ViewLikeOpInterface>())
    base = view.getViewSource();
  return base;
}

/// Whether `loop` leaves the memory of `root` alone: it writes other memory only, and one of the two is an allocation.
static bool leavesAlone(scf::ForOp loop, Value root) {
  auto writesElsewhere = [&](Value base) {
    Value other = rootOf(base);
    return other != root && (other.getDefiningOp<memref::AllocOp>() || root.getDefiningOp<memref::AllocOp>());
  };
  WalkResult result = loop->walk([&](Operation *op) {
    auto write = dyn_cast<vector::TransferWriteOp>(op);
    bool harmless = write ? writesElsewhere(write.getBase())
                          : isa<vector::TransferReadOp, scf::ForOp, scf::IfOp>(op) || isMemoryEffectFree(op);
    return harmless ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

/// Moves `op`, which reads `root` only, out of all loops in which neither its operands nor that memory change.
static void hoist(RewriterBase &rewriter, Operation *op, Value root) {
  while (auto loop = dyn_cast<scf::ForOp>(op->getParentOp())) {
    bool invariant = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        invariant &= op->isAncestor(operand.getParentBlock()->getParentOp()) || loop.isDefinedOutsideOfLoop(operand);
    });
    if (!invariant || !leavesAlone(loop, root))
      return;
    rewriter.moveOpBefore(op, loop);
  }
}

/// The loop over k that carries the accumulator of `contract`; null when there is none.
static scf::ForOp carrier(vector::ContractionOp contract) {
  auto loop = dyn_cast<scf::ForOp>(contract->getParentOp());
  auto argument = dyn_cast<BlockArgument>(contract.getAcc());
  if (!loop || !argument || argument.getOwner() != loop.getBody() || argument.getArgNumber() == 0)
    return nullptr;
  return loop;
}

/// The highest bits of `elements` inverted.
static Value flipSign(RewriterBase &rewriter, Location loc, Value elements) {
  auto type = cast<VectorType>(elements.getType());
  auto bit = rewriter.getIntegerAttr(type.getElementType(), APInt::getSignMask(type.getElementTypeBitWidth()));
  Value mask = arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, Attribute(bit)));
  return arith::XOrIOp::create(rewriter, loc, elements, mask);
}

/// Copies to the insertion point the ops of `block` that `value` comes from, and returns the copy of `value`.
static Value cloneSlice(RewriterBase &rewriter, Value value, Block *block, IRMapping &map) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != block || map.contains(value))
    return map.lookupOrDefault(value);
  for (Value operand : op->getOperands())
    cloneSlice(rewriter, operand, block, map);
  return rewriter.clone(*op, map)->getResult(cast<OpResult>(value).getResultNumber());
}

/// What the left operand's inverted signs add to a row of the result: 128 times, or -128 times, the sums of B's
/// columns.
static Value flipExcess(RewriterBase &rewriter, Grouping &grouping, vector::ContractionOp contract, Extended lhs,
                        Extended rhs) {
  Location loc = contract.getLoc();
  auto sums = cast<VectorType>(contract.getAccType());
  auto rowType = VectorType::get({1, sums.getDimSize(1)}, sums.getElementType());
  auto lhsType = cast<VectorType>(lhs.source.getType());
  auto bits = rewriter.getIntegerAttr(lhsType.getElementType(), APInt::getSignMask(lhsType.getElementTypeBitWidth()));
  auto rowOf = [&](Value source, Value carried) {
    auto type = VectorType::get({1, lhsType.getDimSize(1)}, lhsType.getElementType());
    Value ones = arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, Attribute(bits)));
    return grouping.product(grouping.groupLhs({ones, lhs.op}), grouping.groupRhs({source, rhs.op}), carried);
  };
  OpBuilder::InsertionGuard guard(rewriter);
  // At the top, where it keeps no loop from moving out.
  rewriter.setInsertionPointToStart(&contract->getParentOfType<FunctionOpInterface>().getFunctionBody().front());
  Value zeros = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(rowType));
  scf::ForOp loop = carrier(contract);
  rewriter.setInsertionPoint(loop ? loop.getOperation() : contract.getOperation());
  if (!loop)
    return rowOf(rhs.source, zeros);
  auto sumLoop = scf::ForOp::create(rewriter, loc, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), zeros);
  rewriter.setInsertionPointToStart(sumLoop.getBody());
  IRMapping map;
  map.map(loop.getInductionVar(), sumLoop.getInductionVar());
  Value source = cloneSlice(rewriter, rhs.source, loop.getBody(), map);
  Value row = rowOf(source, sumLoop.getRegionIterArg(0));
  scf::YieldOp::create(rewriter, loc, row);
  if (auto read = source.getDefiningOp<vector::TransferReadOp>())
    hoist(rewriter, sumLoop, rootOf(read.getBase()));
  return sumLoop.getResult(0);
}

/// Takes `row` off every row of the sums that `contract` starts from.
static void subtractFromStart(RewriterBase &rewriter, vector::ContractionOp contract, Value row) {
  Location loc = contract.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  scf::ForOp loop = carrier(contract);
  OpOperand *start = &contract.getAccMutable();
  if (loop) {
    rewriter.setInsertionPoint(loop);
    start = loop.getTiedLoopInit(cast<BlockArgument>(contract.getAcc()));
  }
  Value rows = vector::BroadcastOp::create(rewriter, loc, start->get().getType(), row);
  Value less = arith::SubIOp::create(rewriter, loc, start->get(), rows);
  rewriter.modifyOpInPlace(start->getOwner(), [&] { start->set(less); });
}

static void bringToDotForm(RewriterBase &rewriter, vector::ContractionOp contract, DotFormOp options) {
  std::optional<Extended> lhs = extendedFrom(contract.getLhs(), options.getElement());
  std::optional<Extended> rhs = extendedFrom(contract.getRhs(), options.getElement());
  int64_t multiple = std::lcm<int64_t>(options.getDepth(), options.getMultiple().value_or(1));
  if (!lhs || !rhs || contract.getKind() != vector::CombiningKind::ADD ||
      contract.getIndexingMapsArray() != productMaps(rewriter.getContext()) ||
      contract.getLhsType().getDimSize(1) % multiple != 0 ||
      contract.getLhsType().getDimSize(0) % options.getRows().value_or(1) != 0)
    return;
  Grouping grouping(rewriter, contract, options);
  rewriter.setInsertionPoint(contract);
  if (options.getFlip() && isa<arith::ExtSIOp, arith::ExtUIOp>(extensionOf(contract.getLhs()))) {
    bool wasSigned = isa<arith::ExtSIOp>(extensionOf(contract.getLhs()));
    StringRef flipped = wasSigned ? arith::ExtUIOp::getOperationName() : arith::ExtSIOp::getOperationName();
    lhs->op = OperationName(flipped, rewriter.getContext());
    subtractFromStart(rewriter, contract, flipExcess(rewriter, grouping, contract, *lhs, *rhs));
    lhs->source = flipSign(rewriter, contract.getLoc(), lhs->source);
  }
  Value left = grouping.groupLhs(*lhs), right = grouping.groupRhs(*rhs);
  Operation *extensions[] = {extensionOf(contract.getLhs()), extensionOf(contract.getRhs())};
  rewriter.replaceOp(contract, grouping.product(left, right, contract.getAcc()));
  // They would be further users of what is read.
  for (Operation *extension : extensions)
    if (extension->use_empty())
      rewriter.eraseOp(extension);
}

DiagnosedSilenceableFailure DotFormOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                  transform::ApplyToEachResultList &results,
                                                  transform::TransformState &state) {
  SmallVector<vector::ContractionOp> contracts;
  target->walk([&](vector::ContractionOp contract) { contracts.push_back(contract); });
  for (vector::ContractionOp contract : contracts)
    bringToDotForm(rewriter, contract, *this);
  return DiagnosedSilenceableFailure::success();
}

void DotFormOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
