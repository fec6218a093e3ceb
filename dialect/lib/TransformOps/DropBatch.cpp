// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tilewright;

/// The op of the kind of `op` over the loops that are left.
static Operation *createSmaller(Location loc, OpBuilder &builder, linalg::LinalgOp op, ArrayRef<Value> operands,
                                ArrayRef<AffineMap> maps, const llvm::SmallDenseSet<unsigned> &dropped) {
  size_t inputs = op.getNumDpsInputs();
  ValueRange ins = operands.take_front(inputs), outs = operands.drop_front(inputs);
  if (isa<linalg::FillOp>(op))
    return linalg::FillOp::create(builder, loc, ins, outs);
  AffineExpr m, n, k;
  bindDims(builder.getContext(), m, n, k);
  if (auto contract = dyn_cast<linalg::ContractOp>(op.getOperation());
      contract &&
      llvm::equal(maps, AffineMap::inferFromExprList(ArrayRef<SmallVector<AffineExpr, 4>>{{m, k}, {k, n}, {m, n}},
                                                     builder.getContext()))) {
    // The region is made when the op is, by what the attribute says then.
    SmallVector<NamedAttribute> attributes;
    if (linalg::TypeFnAttr cast = contract.getCastAttr())
      attributes.push_back(builder.getNamedAttr(contract.getCastAttrName(), cast));
    return linalg::MatmulOp::create(builder, loc, ins, outs, attributes);
  }
  SmallVector<utils::IteratorType> iterators;
  for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
    if (!dropped.contains(loop))
      iterators.push_back(iterator);
  auto generic = linalg::GenericOp::create(builder, loc, outs.getTypes(), ins, outs, maps, iterators);
  IRMapping mapping;
  op->getRegion(0).cloneInto(&generic.getRegion(), mapping);
  return generic;
}

/// Lets a result that was put back into a tile, which is put into a larger tensor, go there without the tile.
/// Upstream's patterns merge such insertions only where all sizes are static.
static void insertAtOnce(RewriterBase &rewriter, Value tile) {
  auto inner = tile.getDefiningOp<tensor::InsertSliceOp>();
  if (!inner)
    return;
  for (Operation *user : llvm::make_early_inc_range(tile.getUsers())) {
    auto outer = dyn_cast<tensor::InsertSliceOp>(user);
    if (!outer || outer.getSource() != tile || outer.getSourceType().getRank() != outer.getDestType().getRank())
      continue;
    rewriter.setInsertionPoint(outer);
    rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(outer, inner.getSource(), outer.getDest(),
                                                       outer.getMixedOffsets(), outer.getMixedSizes(),
                                                       outer.getMixedStrides());
  }
}

/// What `operand` is a slice of, where that has the same elements and dimensions: all of a tensor that a reshape gave
/// one more dimension. Upstream's patterns for reshapes have none for this. Otherwise `operand`.
static Value withoutReshape(Value operand) {
  auto slice = operand.getDefiningOp<tensor::ExtractSliceOp>();
  auto reshape = slice ? slice.getSource().getDefiningOp<tensor::ExpandShapeOp>() : tensor::ExpandShapeOp();
  if (!reshape || reshape.getSrc().getType() != operand.getType() || !slice.getSourceType().hasStaticShape())
    return operand;
  bool whole = llvm::equal(slice.getStaticSizes(), slice.getSourceType().getShape());
  return whole ? reshape.getSrc() : operand;
}

DiagnosedSilenceableFailure DropBatchOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                    transform::ApplyToEachResultList &results,
                                                    transform::TransformState &state) {
  auto op = dyn_cast<linalg::LinalgOp>(target);
  auto refuse = [&](StringRef why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  if (!op || !op.hasPureTensorSemantics())
    return refuse("expected a linalg op on tensors");
  int64_t count = getCount();
  if (auto own = target->getAttrOfType<IntegerAttr>("own_batch"))
    count = own.getInt();
  if (count == 0)
    return DiagnosedSilenceableFailure::success();
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  if (static_cast<int64_t>(ranges.size()) < count ||
      llvm::any_of(ArrayRef(ranges).take_front(count), [](int64_t range) { return range != 1; }))
    return DiagnosedSilenceableFailure::success();

  linalg::ControlDropUnitDims control;
  control.rankReductionStrategy = linalg::ControlDropUnitDims::RankReductionStrategy::ExtractInsertSlice;
  control.controlFn = [&](Operation *) { return llvm::to_vector(llvm::seq<unsigned>(0, count)); };
  rewriter.setInsertionPoint(target);
  auto build = [&](Location loc, OpBuilder &builder, IndexingMapOpInterface, ArrayRef<Value> operands,
                   ArrayRef<AffineMap> maps, const llvm::SmallDenseSet<unsigned> &dropped) {
    Operation *smaller = createSmaller(loc, builder, op, llvm::map_to_vector(operands, withoutReshape), maps, dropped);
    for (NamedAttribute attribute : target->getDiscardableAttrs())
      smaller->setDiscardableAttr(attribute.getName(), attribute.getValue());
    return cast<IndexingMapOpInterface>(smaller);
  };
  FailureOr<linalg::DropUnitDimsResult> result =
      linalg::dropUnitDims(rewriter, cast<IndexingMapOpInterface>(target), build, control);
  if (failed(result))
    return refuse("upstream does not drop these dimensions");
  rewriter.replaceOp(target, result->replacements);
  for (Value replacement : result->replacements)
    insertAtOnce(rewriter, replacement);
  return DiagnosedSilenceableFailure::success();
}

void DropBatchOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
