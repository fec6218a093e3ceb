// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "RowChain.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"
#include "VectorBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// Vectors that a reduction keeps: as many as hide the latency of an addition or a maximum.
constexpr int64_t partial = 4;

/// Builds the loop over rows of one chain.
class RowLoop {
public:
  RowLoop(RewriterBase &rewriter, Location loc, ArrayRef<RowOp> chain, int64_t lanes)
      : rewriter(rewriter), loc(loc), chain(chain), lanes(lanes), zero(index(0)) {
    for (const RowOp &each : chain)
      if (each.kind == RowOp::Elements || &each == &chain.back())
        carry(each);
    rows = extent(0);
    columns = extent(1);
  }

  /// The loop's result for the last op.
  Value build() {
    auto loop = scf::ForOp::create(rewriter, loc, zero, rows, index(1), carried);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(loop.getBody());
    row = loop.getInductionVar();
    carried.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    for (const RowOp &each : chain) {
      if (each.kind == RowOp::Elements)
        computeElements(each.op);
      else
        finishScalar(each, each.kind == RowOp::Reduction ? reduce(each) : computeScalar(each.op));
    }
    scf::YieldOp::create(rewriter, loc, carried);
    return loop.getResult(places.lookup(resultOf(chain.back())));
  }

private:
  static Value resultOf(const RowOp &each) {
    linalg::GenericOp op = each.op;
    return op->getResult(0);
  }

  Value index(int64_t value) { return arith::ConstantIndexOp::create(rewriter, loc, value); }

  /// Carries what an op writes into through the loop over rows: the tensor that an earlier one wrote, or a new one.
  void carry(const RowOp &each) {
    linalg::GenericOp op = each.op;
    Value init = op.getDpsInitOperand(0)->get();
    if (each.kind == RowOp::Reduction)
      init = init.getDefiningOp<linalg::FillOp>().getDpsInitOperand(0)->get();
    auto [place, isNew] = places.try_emplace(init, carried.size());
    if (isNew)
      carried.push_back(init);
    places[resultOf(each)] = place->second;
  }

  /// How many steps the chain takes along m or n.
  Value extent(unsigned dim) {
    for (const RowOp &each : chain) {
      linalg::GenericOp op = each.op;
      for (OpOperand &operand : op->getOpOperands()) {
        bool isOurs =
            llvm::any_of(chain, [&](const RowOp &other) { return other.op == operand.get().getDefiningOp(); });
        for (auto [position, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
          if (!isOurs && expr == rewriter.getAffineDimExpr(dim))
            return getValueOrCreateConstantIndexOp(rewriter, loc,
                                                   tensor::getMixedSize(rewriter, loc, operand.get(), position));
      }
    }
    return index(1);
  }

  /// The tensor that `value` is now.
  Value current(Value value) {
    auto place = places.find(value);
    return place == places.end() ? value : carried[place->second];
  }

  /// One element of an operand that has none for each column.
  Value scalar(linalg::GenericOp op, OpOperand &operand) {
    if (Value known = scalars.lookup(operand.get()))
      return known;
    if (!isa<RankedTensorType>(operand.get().getType()))
      return operand.get();
    SmallVector<Value> indices(op.getMatchingIndexingMap(&operand).getNumResults(), row);
    return tensor::ExtractOp::create(rewriter, loc, current(operand.get()), indices);
  }

  /// `width` elements of an operand from `column` on.
  Value read(linalg::GenericOp op, OpOperand &operand, Value column, int64_t width, bool inBounds) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    Type element = getElementTypeOrSelf(operand.get().getType());
    auto type = VectorType::get({width}, element);
    SmallVector<Value> indices;
    std::optional<unsigned> along;
    for (auto [position, expr] : llvm::enumerate(map.getResults())) {
      bool isColumn = cast<AffineDimExpr>(expr).getPosition() == 1;
      indices.push_back(isColumn ? column : row);
      if (isColumn)
        along = position;
    }
    if (!along)
      return vector::BroadcastOp::create(rewriter, loc, type, scalar(op, operand));
    Value padding = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(element));
    auto results = AffineMap::get(map.getNumResults(), 0, rewriter.getAffineDimExpr(*along));
    return vector::TransferReadOp::create(rewriter, loc, type, current(operand.get()), indices,
                                          AffineMapAttr::get(results), padding, /*mask=*/Value(),
                                          rewriter.getBoolArrayAttr({inBounds}));
  }

  /// What the body of `op` makes of the elements from `column` on: the value that `wanted` is in it.
  Value compute(linalg::GenericOp op, Value wanted, Value column, int64_t width, bool inBounds) {
    VectorBody body(rewriter, loc, {width});
    Block *block = op.getBlock();
    for (OpOperand &operand : op->getOpOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(&operand);
      bool isCombined = op.getNumReductionLoops() != 0 && op.isDpsInit(&operand);
      if (!argument.use_empty() && !isCombined)
        body.map(argument, read(op, operand, column, width, inBounds));
    }
    for (Operation &each : block->without_terminator())
      if (op.getNumReductionLoops() == 0 || &each != block->getTerminator()->getOperand(0).getDefiningOp())
        body.repeat(each);
    return body.of(wanted);
  }

  /// A loop over columns that carries `inits`. Returns where it ends.
  Value loopOver(Value from, Value to, Value step, ValueRange inits,
                 llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body, SmallVector<Value> &results) {
    auto loop = scf::ForOp::create(rewriter, loc, from, to, step, inits);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(rewriter, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
    results.assign(loop.getResults().begin(), loop.getResults().end());
    return to;
  }

  /// The columns before the last ones that are no multiple of `width`.
  Value whole(int64_t width) {
    Value rest = arith::RemUIOp::create(rewriter, loc, columns, index(width));
    return arith::SubIOp::create(rewriter, loc, columns, rest);
  }

  bool hasRest() {
    std::optional<int64_t> size = getConstantIntValue(columns);
    return !size || *size % lanes != 0;
  }

  void computeElements(linalg::GenericOp op) {
    unsigned place = places.lookup(op->getResult(0));
    Value wanted = op.getBlock()->getTerminator()->getOperand(0);
    auto step = [&](Value column, Value tensor, bool inBounds) -> Value {
      carried[place] = tensor;
      Value vector = compute(op, wanted, column, lanes, inBounds);
      return vector::TransferWriteOp::create(rewriter, loc, vector, tensor, ValueRange{row, column},
                                             ArrayRef<bool>{inBounds})
          .getResult();
    };
    SmallVector<Value> left;
    Value end = loopOver(
        zero, whole(lanes), index(lanes), carried[place],
        [&](Value column, ValueRange tensors) { return SmallVector<Value>{step(column, tensors.front(), true)}; },
        left);
    carried[place] = hasRest() ? step(end, left.front(), false) : left.front();
  }

  Value combined(const RowOp &each, Value x, Value y) {
    OperationState state(loc, each.combiner->getName(), ValueRange{x, y}, x.getType(), each.combiner->getAttrs());
    return rewriter.create(state)->getResult(0);
  }

  /// Every lane holds what changes nothing.
  Value neutral(const RowOp &each) {
    Type element = each.combiner->getResult(0).getType();
    TypedAttr value = rewriter.getZeroAttr(element);
    if (auto type = dyn_cast<FloatType>(element); type && isa<arith::MaximumFOp>(each.combiner))
      value = rewriter.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics(), /*Negative=*/true));
    else if (isa<arith::MaxSIOp>(each.combiner))
      value = rewriter.getIntegerAttr(element, APInt::getSignedMinValue(element.getIntOrFloatBitWidth()));
    return arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(VectorType::get({lanes}, element), value));
  }

  Value reduce(const RowOp &each) {
    linalg::GenericOp op = each.op;
    BlockArgument output = op.getBlock()->getArguments().back();
    Value wanted = each.combiner->getOperand(each.combiner->getOperand(0) == output ? 1 : 0);
    SmallVector<Value> sums(partial, neutral(each));
    Value first = loopOver(
        zero, whole(partial * lanes), index(partial * lanes), sums,
        [&](Value column, ValueRange before) {
          SmallVector<Value> after;
          for (auto [i, sum] : llvm::enumerate(before)) {
            Value at = arith::AddIOp::create(rewriter, loc, column, index(i * lanes));
            after.push_back(combined(each, sum, compute(op, wanted, at, lanes, true)));
          }
          return after;
        },
        sums);
    Value total = combined(each, combined(each, sums[0], sums[1]), combined(each, sums[2], sums[3]));
    SmallVector<Value> one;
    Value end = loopOver(
        first, whole(lanes), index(lanes), total,
        [&](Value column, ValueRange before) {
          return SmallVector<Value>{combined(each, before.front(), compute(op, wanted, column, lanes, true))};
        },
        one);
    total = one.front();
    if (hasRest()) {
      Value left = arith::SubIOp::create(rewriter, loc, columns, end);
      Value mask = vector::CreateMaskOp::create(rewriter, loc, VectorType::get({lanes}, rewriter.getI1Type()), left);
      Value rest = compute(op, wanted, end, lanes, false);
      total = combined(each, total, arith::SelectOp::create(rewriter, loc, mask, rest, neutral(each)));
    }
    Value start = arith::ConstantOp::create(rewriter, loc, cast<TypedAttr>(each.start));
    return combined(each, start, acrossLanes(each, total));
  }

  /// One number of all lanes, by halves.
  Value acrossLanes(const RowOp &each, Value total) {
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
      auto part = [&](int64_t offset) {
        return vector::ExtractStridedSliceOp::create(rewriter, loc, total, ArrayRef<int64_t>{offset},
                                                     ArrayRef<int64_t>{half}, ArrayRef<int64_t>{1});
      };
      total = combined(each, part(0), part(half));
    }
    return vector::ExtractOp::create(rewriter, loc, total, 0);
  }

  Value computeScalar(linalg::GenericOp op) {
    IRMapping map;
    for (OpOperand &operand : op->getOpOperands())
      if (BlockArgument argument = op.getMatchingBlockArgument(&operand); !argument.use_empty())
        map.map(argument, scalar(op, operand));
    for (Operation &each : op.getBlock()->without_terminator())
      rewriter.clone(each, map);
    return map.lookupOrDefault(op.getBlock()->getTerminator()->getOperand(0));
  }

  void finishScalar(const RowOp &each, Value value) {
    Value result = resultOf(each);
    scalars[result] = value;
    if (&each == &chain.back()) {
      Value &tensor = carried[places.lookup(result)];
      tensor = tensor::InsertOp::create(rewriter, loc, value, tensor, ValueRange{row});
    }
  }

  RewriterBase &rewriter;
  Location loc;
  ArrayRef<RowOp> chain;
  int64_t lanes;
  Value zero, rows, columns, row;
  SmallVector<Value> carried;             // By place: the tensors as they are now.
  llvm::DenseMap<Value, unsigned> places; // Of tensors outside of the loop, and of results of the chain.
  llvm::DenseMap<Value, Value> scalars;   // What reductions gave for the row.
};
} // namespace

DiagnosedSilenceableFailure VectorizeRowsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  auto last = dyn_cast<linalg::GenericOp>(target);
  std::string why = "it is no linalg.generic";
  FailureOr<SmallVector<RowOp>> chain = failure();
  if (last)
    chain = rowChain(last, why);
  if (succeeded(chain) && !llvm::isPowerOf2_64(getLanes())) {
    why = "lanes are no power of two";
    chain = failure();
  }
  if (failed(chain)) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "expected the last op of a chain of elementwise ops and reductions of "
                                             "rows on tensors: "
                                          << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  rewriter.setInsertionPoint(last);
  Value result = RowLoop(rewriter, last.getLoc(), *chain, getLanes()).build();
  rewriter.replaceOp(last, result);
  chain->pop_back();
  for (RowOp &each : llvm::reverse(*chain))
    rewriter.eraseOp(each.op);
  return DiagnosedSilenceableFailure::success();
}

void VectorizeRowsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
