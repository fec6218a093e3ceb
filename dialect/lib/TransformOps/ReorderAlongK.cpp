// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Order.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tilewright;

AffineExpr tilewright::reordered(AffineExpr k, int64_t block, int64_t ways) {
  return k.floorDiv(block) * block + (k % (block / ways)) * ways + (k % block).floorDiv(block / ways);
}

/// Whether `result` counts groups along `k` that are whole blocks, or has nothing to do with it.
static bool isOfWholeBlocks(AffineExpr result, AffineExpr k, int64_t block) {
  if (!result.isFunctionOfDim(cast<AffineDimExpr>(k).getPosition()))
    return true;
  auto group = dyn_cast<AffineBinaryOpExpr>(result);
  auto size = group ? dyn_cast<AffineConstantExpr>(group.getRHS()) : nullptr;
  return size && group.getKind() == AffineExprKind::FloorDiv && group.getLHS() == k && size.getValue() % block == 0;
}

DiagnosedSilenceableFailure ReorderAlongKOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  auto refuse = [&](StringRef why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  int64_t block = getBlock(), ways = getWays();
  auto product = dyn_cast<linalg::MatmulOp>(target);
  if (!product || block % ways != 0)
    return refuse("expected a linalg.matmul, and a block of so many ways");
  Value a = product.getInputs()[0];
  auto type = cast<RankedTensorType>(a.getType());
  auto prologue = product.getInputs()[1].getDefiningOp<linalg::GenericOp>();
  if (!type.hasStaticShape() || type.getDimSize(1) % block != 0)
    return refuse("expected a size along k that is known, and a multiple of the block");
  AffineExpr row, column;
  bindDims(rewriter.getContext(), row, column);
  AffineMap identity = AffineMap::get(2, 0, {row, column}, rewriter.getContext());
  SmallVector<AffineMap> maps;
  if (prologue)
    maps = prologue.getIndexingMapsArray();
  bool fits = prologue && prologue->hasOneUse() && prologue.getNumLoops() == 2 && maps.size() > 1 &&
              maps.front() == identity && maps.back() == identity;
  if (!fits || !llvm::all_of(ArrayRef(maps).drop_front().drop_back(), [&](AffineMap map) {
        return llvm::all_of(map.getResults(), [&](AffineExpr each) { return isOfWholeBlocks(each, row, block); });
      }))
    return refuse("expected a B that an elementwise linalg.generic computes of one element and of others that are the "
                  "same for a block");
  maps.front() = AffineMap::get(2, 0, {reordered(row, block, ways), column}, rewriter.getContext());
  rewriter.modifyOpInPlace(prologue, [&] { prologue.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps)); });

  rewriter.setInsertionPoint(product);
  Location loc = product.getLoc();
  Value empty = tensor::EmptyOp::create(rewriter, loc, type.getShape(), type.getElementType());
  SmallVector<AffineMap> copied{AffineMap::get(2, 0, {row, reordered(column, block, ways)}, rewriter.getContext()),
                                identity};
  auto copy = linalg::GenericOp::create(
      rewriter, loc, TypeRange{type}, ValueRange{a}, ValueRange{empty}, copied,
      SmallVector<utils::IteratorType>(2, utils::IteratorType::parallel),
      [](OpBuilder &builder, Location at, ValueRange elements) { linalg::YieldOp::create(builder, at, elements[0]); });
  rewriter.modifyOpInPlace(product, [&] { product->setOperand(0, copy.getResult(0)); });
  return DiagnosedSilenceableFailure::success();
}

void ReorderAlongKOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
