// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BlockTile.h"
#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

using namespace mlir;
using namespace tilewright;

/// Rows that a warp group multiplies at once.
static constexpr int64_t kWarpGroupRows = 64;
/// Lanes of tensor memory: rows that one thread multiplies at once.
static constexpr int64_t kLanes = 128;

/// A failure of `op`, with a note at the payload operation it is about.
static DiagnosedSilenceableFailure failAt(transform::TransformOpInterface op, Operation *payload, const Twine &what) {
  DiagnosedSilenceableFailure failure = op.emitSilenceableError() << what;
  failure.attachNote(payload->getLoc()) << "payload operation";
  return failure;
}

/// Records a decision on a loop, which carries none under that name yet.
static DiagnosedSilenceableFailure record(transform::TransformRewriter &rewriter, transform::TransformOpInterface op,
                                          Operation *loop, StringRef name, Attribute decision) {
  if (Attribute present = loop->getDiscardableAttr(name)) {
    std::string text;
    llvm::raw_string_ostream(text) << "the loop already carries " << present << " and cannot carry " << decision
                                   << " too: decide it once";
    return failAt(op, loop, text);
  }
  rewriter.modifyOpInPlace(loop, [&] { loop->setDiscardableAttr(name, decision); });
  return DiagnosedSilenceableFailure::success();
}

/// Records how the tile of a loop over blocks is shared, in parts of rows x columns.
static DiagnosedSilenceableFailure share(transform::TransformRewriter &rewriter, transform::TransformOpInterface op,
                                         Operation *target, int64_t rows, int64_t columns, Attribute decision) {
  BlockTile tile;
  DiagnosedSilenceableFailure found = findBlockTile(op, target, tile);
  if (!found.succeeded())
    return found;
  if (tile.rows % rows || tile.columns % columns)
    return failAt(op, target,
                  "a tile of " + Twine(tile.rows) + "x" + Twine(tile.columns) + " is no multiple of parts of " +
                      Twine(rows) + "x" + Twine(columns) + ": choose parts that divide it");
  return record(rewriter, op, target, TilewrightDialect::getSharingAttrName(), decision);
}

DiagnosedSilenceableFailure ShareAmongThreadsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                            transform::ApplyToEachResultList &results,
                                                            transform::TransformState &state) {
  return share(rewriter, *this, target, getRows(), getColumns(),
               ThreadsAttr::get(getContext(), getRows(), getColumns()));
}

void ShareAmongThreadsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}

LogicalResult ShareAmongWarpsOp::verify() {
  return WarpsAttr::verify([&] { return emitOpError(); }, getRows(), getColumns(), getInstructions());
}

DiagnosedSilenceableFailure ShareAmongWarpsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                          transform::ApplyToEachResultList &results,
                                                          transform::TransformState &state) {
  return share(rewriter, *this, target, getRows(), getColumns(),
               WarpsAttr::get(getContext(), getRows(), getColumns(), getInstructions()));
}

void ShareAmongWarpsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}

LogicalResult SpecializeWarpGroupsOp::verify() {
  if (getPingpong() && (getConsumers() != 2 || getSplit() > 1))
    return emitOpError()
           << "pingpong: two consumers take turns, whose sums are not split: expected `consumers 2`, and no `split`";
  if (getStreamed() && (getPingpong() || getSplit() > 1))
    return emitOpError()
           << "streamed: the steps of tiles are divided otherwise: expected neither `pingpong` nor `split`";
  if (getFetched() && getSplit() > 1)
    return emitOpError() << "fetched: a block has boxes of its own for a whole tile: expected no `split`";
  if (getCluster() * getBeside() > 1 && (getSwapped() || getSplit() > 1))
    return emitOpError()
           << "cluster: blocks that share the tile of A or B are neither swapped nor split: expected one of them";
  return success();
}

DiagnosedSilenceableFailure SpecializeWarpGroupsOp::applyToOne(transform::TransformRewriter &rewriter,
                                                               Operation *target,
                                                               transform::ApplyToEachResultList &results,
                                                               transform::TransformState &state) {
  auto decision = WarpGroupsAttr::get(getContext(), getConsumers(), getPingpong(), getCluster(), getBeside(),
                                      getSplit(), getStreamed(), getFetched(), getSwapped(), getBand(), getPromote());
  int64_t rows = kWarpGroupRows * (getPingpong() ? 1 : getConsumers());
  return getSwapped() ? share(rewriter, *this, target, 1, rows, decision)
                      : share(rewriter, *this, target, rows, 1, decision);
}

void SpecializeWarpGroupsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}

LogicalResult SpecializeWarpsOp::verify() {
  if (getCluster() > 1 && (getSwapped() || getSplit() > 1))
    return emitOpError()
           << "cluster: blocks that share the tile of B are neither swapped nor split: expected one of them";
  if (getPair() && getCluster() != 2)
    return emitOpError() << "pair: the two blocks of a cluster multiply together: expected `cluster 2`";
  if (getStreamed() && getSplit() > 1)
    return emitOpError() << "streamed: the steps of tiles are divided otherwise: expected no `split`";
  return success();
}

DiagnosedSilenceableFailure SpecializeWarpsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                          transform::ApplyToEachResultList &results,
                                                          transform::TransformState &state) {
  auto decision = TensorMemoryAttr::get(getContext(), getBuffers(), getCluster(), getPair(), getSplit(), getStreamed(),
                                        getSwapped(), getBand());
  return getSwapped() ? share(rewriter, *this, target, 1, kLanes, decision)
                      : share(rewriter, *this, target, kLanes, 1, decision);
}

void SpecializeWarpsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}

DiagnosedSilenceableFailure PipelineOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                   transform::ApplyToEachResultList &results,
                                                   transform::TransformState &state) {
  auto blocks = target->getParentOfType<scf::ForallOp>();
  if (!blocks)
    return failAt(*this, target, "expected the loop over K in a loop over blocks: tile with tile_using_forall first");
  BlockTile tile;
  DiagnosedSilenceableFailure found = findBlockTile(*this, blocks, tile);
  if (!found.succeeded())
    return found;
  if (tile.overK != target)
    return failAt(*this, target,
                  "expected the loop over K, got '" + target->getName().getStringRef() + "' in the block");
  return record(rewriter, *this, target, TilewrightDialect::getPipelineAttrName(),
                PipelineAttr::get(getContext(), getStages()));
}

void PipelineOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
