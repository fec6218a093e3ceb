// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BlockTile.h"
#include "Clauses.h"
#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

using namespace mlir;
using namespace tilewright;

/// Rows that a warp group multiplies at once.
static constexpr int64_t kWarpGroupRows = 64;
/// Lanes of tensor memory: rows that one thread multiplies at once.
static constexpr int64_t kLanes = 128;
/// Rows of tiles that blocks go through together where no clause says it.
static constexpr int64_t kBand = 8;

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

/// Applies `decide` to each op of a handle, until one fails.
static DiagnosedSilenceableFailure toEach(transform::TransformState &state, Value target,
                                          llvm::function_ref<DiagnosedSilenceableFailure(Operation *)> decide) {
  for (Operation *each : state.getPayloadOps(target))
    if (DiagnosedSilenceableFailure done = decide(each); !done.succeeded())
      return done;
  return DiagnosedSilenceableFailure::success();
}

/// Whether all that the clauses of an op say is in its text.
static bool isStatic(Operation *op) { return op->getNumOperands() == 1; }

LogicalResult ShareAmongThreadsOp::verify() {
  return verifyClauses(*this, {{"rows", getDynamicRows(), getRowsAttr(), /*needed=*/true},
                               {"columns", getDynamicColumns(), getColumnsAttr(), /*needed=*/true}});
}

DiagnosedSilenceableFailure ShareAmongThreadsOp::apply(transform::TransformRewriter &rewriter,
                                                       transform::TransformResults &results,
                                                       transform::TransformState &state) {
  ClauseReader said(*this, state);
  int64_t rows = said.size("rows", getDynamicRows(), getRows());
  int64_t columns = said.size("columns", getDynamicColumns(), getColumns());
  if (said.isWrong())
    return said.result();
  auto decision = ThreadsAttr::get(getContext(), rows, columns);
  return toEach(state, getTarget(),
                [&](Operation *loop) { return share(rewriter, *this, loop, rows, columns, decision); });
}

LogicalResult ShareAmongWarpsOp::verify() {
  if (failed(verifyClauses(*this, {{"rows", getDynamicRows(), getRowsAttr(), /*needed=*/true},
                                   {"columns", getDynamicColumns(), getColumnsAttr(), /*needed=*/true}})))
    return failure();
  return WarpsAttr::verify([&] { return emitOpError(); }, getRows().value_or(1), getColumns().value_or(1),
                           getInstructions());
}

DiagnosedSilenceableFailure ShareAmongWarpsOp::apply(transform::TransformRewriter &rewriter,
                                                     transform::TransformResults &results,
                                                     transform::TransformState &state) {
  ClauseReader said(*this, state);
  int64_t rows = said.size("rows", getDynamicRows(), getRows());
  int64_t columns = said.size("columns", getDynamicColumns(), getColumns());
  if (said.isWrong())
    return said.result();
  auto decision = WarpsAttr::get(getContext(), rows, columns, getInstructions());
  return toEach(state, getTarget(),
                [&](Operation *loop) { return share(rewriter, *this, loop, rows, columns, decision); });
}

/// What is wrong with clauses of warp groups that do not go together; empty if nothing is.
static StringRef wrongWarpGroups(int64_t consumers, bool pingpong, int64_t cluster, int64_t beside, int64_t split,
                                 bool streamed, bool fetched, bool swapped) {
  if (pingpong && (consumers != 2 || split > 1))
    return "pingpong: two consumers take turns, whose sums are not split: expected `consumers 2`, and no `split`";
  if (streamed && (pingpong || split > 1))
    return "streamed: the steps of tiles are divided otherwise: expected neither `pingpong` nor `split`";
  if (fetched && split > 1)
    return "fetched: a block has boxes of its own for a whole tile: expected no `split`";
  if ((cluster > 1 || beside > 1) && (swapped || split > 1))
    return "cluster: blocks that share the tile of A or B are neither swapped nor split: expected one of them";
  return "";
}

LogicalResult SpecializeWarpGroupsOp::verify() {
  if (failed(verifyClauses(*this, {{"consumers", getDynamicConsumers(), getConsumersAttr(), /*needed=*/true},
                                   {"pingpong", getDynamicPingpong(), getPingpongAttr()},
                                   {"cluster", getDynamicCluster(), getClusterAttr()},
                                   {"beside", getDynamicBeside(), getBesideAttr()},
                                   {"split", getDynamicSplit(), getSplitAttr()},
                                   {"streamed", getDynamicStreamed(), getStreamedAttr()},
                                   {"fetched", getDynamicFetched(), getFetchedAttr()},
                                   {"swapped", getDynamicSwapped(), getSwappedAttr()},
                                   {"band", getDynamicBand(), getBandAttr()},
                                   {"promote", getDynamicPromote(), getPromoteAttr()}})))
    return failure();
  if (!isStatic(*this))
    return success();
  StringRef wrong = wrongWarpGroups(*getConsumers(), getPingpong(), getCluster().value_or(1), getBeside().value_or(1),
                                    getSplit().value_or(1), getStreamed(), getFetched(), getSwapped());
  return wrong.empty() ? success() : LogicalResult(emitOpError() << wrong);
}

DiagnosedSilenceableFailure SpecializeWarpGroupsOp::apply(transform::TransformRewriter &rewriter,
                                                          transform::TransformResults &results,
                                                          transform::TransformState &state) {
  ClauseReader said(*this, state);
  int64_t consumers = said.size("consumers", getDynamicConsumers(), getConsumers());
  bool pingpong = said.flag("pingpong", getDynamicPingpong(), getPingpong());
  int64_t cluster = said.size("cluster", getDynamicCluster(), getCluster());
  int64_t beside = said.size("beside", getDynamicBeside(), getBeside());
  int64_t split = said.size("split", getDynamicSplit(), getSplit());
  bool streamed = said.flag("streamed", getDynamicStreamed(), getStreamed());
  bool fetched = said.flag("fetched", getDynamicFetched(), getFetched());
  bool swapped = said.flag("swapped", getDynamicSwapped(), getSwapped());
  int64_t band = said.size("band", getDynamicBand(), getBand(), kBand);
  int64_t promote = said.size("promote", getDynamicPromote(), getPromote(), /*usual=*/0, /*least=*/0);
  said.require(wrongWarpGroups(consumers, pingpong, cluster, beside, split, streamed, fetched, swapped));
  if (said.isWrong())
    return said.result();
  auto decision = WarpGroupsAttr::get(getContext(), consumers, pingpong, cluster, beside, split, streamed, fetched,
                                      swapped, band, promote);
  int64_t rows = kWarpGroupRows * (pingpong ? 1 : consumers);
  return toEach(state, getTarget(), [&](Operation *loop) {
    return swapped ? share(rewriter, *this, loop, 1, rows, decision) : share(rewriter, *this, loop, rows, 1, decision);
  });
}

/// What is wrong with clauses of warps that do not go together; empty if nothing is.
static StringRef wrongWarps(int64_t cluster, bool pair, int64_t split, bool streamed, bool swapped) {
  if (cluster > 1 && (swapped || split > 1))
    return "cluster: blocks that share the tile of B are neither swapped nor split: expected one of them";
  if (pair && cluster != 2)
    return "pair: the two blocks of a cluster multiply together: expected `cluster 2`";
  if (streamed && split > 1)
    return "streamed: the steps of tiles are divided otherwise: expected no `split`";
  return "";
}

LogicalResult SpecializeWarpsOp::verify() {
  if (failed(verifyClauses(*this, {{"buffers", getDynamicBuffers(), getBuffersAttr(), /*needed=*/true},
                                   {"cluster", getDynamicCluster(), getClusterAttr()},
                                   {"pair", getDynamicPair(), getPairAttr()},
                                   {"split", getDynamicSplit(), getSplitAttr()},
                                   {"streamed", getDynamicStreamed(), getStreamedAttr()},
                                   {"swapped", getDynamicSwapped(), getSwappedAttr()},
                                   {"band", getDynamicBand(), getBandAttr()}})))
    return failure();
  if (!isStatic(*this))
    return success();
  StringRef wrong =
      wrongWarps(getCluster().value_or(1), getPair(), getSplit().value_or(1), getStreamed(), getSwapped());
  return wrong.empty() ? success() : LogicalResult(emitOpError() << wrong);
}

DiagnosedSilenceableFailure SpecializeWarpsOp::apply(transform::TransformRewriter &rewriter,
                                                     transform::TransformResults &results,
                                                     transform::TransformState &state) {
  ClauseReader said(*this, state);
  int64_t buffers = said.size("buffers", getDynamicBuffers(), getBuffers());
  int64_t cluster = said.size("cluster", getDynamicCluster(), getCluster());
  bool pair = said.flag("pair", getDynamicPair(), getPair());
  int64_t split = said.size("split", getDynamicSplit(), getSplit());
  bool streamed = said.flag("streamed", getDynamicStreamed(), getStreamed());
  bool swapped = said.flag("swapped", getDynamicSwapped(), getSwapped());
  int64_t band = said.size("band", getDynamicBand(), getBand(), kBand);
  said.require(wrongWarps(cluster, pair, split, streamed, swapped));
  if (said.isWrong())
    return said.result();
  auto decision = TensorMemoryAttr::get(getContext(), buffers, cluster, pair, split, streamed, swapped, band);
  return toEach(state, getTarget(), [&](Operation *loop) {
    return swapped ? share(rewriter, *this, loop, 1, kLanes, decision)
                   : share(rewriter, *this, loop, kLanes, 1, decision);
  });
}

LogicalResult PipelineOp::verify() {
  return verifyClauses(*this, {{"stages", getDynamicStages(), getStagesAttr(), /*needed=*/true}});
}

DiagnosedSilenceableFailure PipelineOp::apply(transform::TransformRewriter &rewriter,
                                              transform::TransformResults &results, transform::TransformState &state) {
  ClauseReader said(*this, state);
  int64_t stages = said.size("stages", getDynamicStages(), getStages());
  if (said.isWrong())
    return said.result();
  auto decision = PipelineAttr::get(getContext(), stages);
  return toEach(state, getTarget(), [&](Operation *target) -> DiagnosedSilenceableFailure {
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
    return record(rewriter, *this, target, TilewrightDialect::getPipelineAttrName(), decision);
  });
}
