// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "FilledTensor.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace tilewright;

/// Replaces `filled.read` by the fill's value in the first step of every loop that reduces.
static void startAtFill(RewriterBase &rewriter, linalg::FillOp fill, FilledRead &filled) {
  vector::TransferReadOp read = filled.read;
  Location loc = read.getLoc();
  rewriter.setInsertionPoint(read);
  Value isFirst;
  for (scf::ForOp loop : filled.reducing) {
    Value first =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq, loop.getInductionVar(), loop.getLowerBound());
    isFirst = isFirst ? arith::AndIOp::create(rewriter, loc, isFirst, first).getResult() : first;
  }
  Value start = vector::BroadcastOp::create(rewriter, loc, read.getVectorType(), fill.value());
  if (!isFirst) {
    rewriter.replaceOp(read, start);
    return;
  }
  auto branch = scf::IfOp::create(rewriter, loc, TypeRange{read.getVectorType()}, isFirst, /*withElseRegion=*/true);
  rewriter.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(rewriter, loc, start);
  rewriter.setInsertionPointToStart(branch.elseBlock());
  Operation *later = rewriter.clone(*read);
  scf::YieldOp::create(rewriter, loc, later->getResults());
  rewriter.replaceOp(read, branch.getResults());
}

DiagnosedSilenceableFailure ForwardFillOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                      transform::ApplyToEachResultList &results,
                                                      transform::TransformState &state) {
  auto fill = dyn_cast<linalg::FillOp>(target);
  if (!fill || !fill.hasPureTensorSemantics()) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << "expected a linalg.fill on tensors";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  FillUses uses = followFill(fill.getResult(0), fill.value(), getRuns());
  if (uses.unexpected) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "'" << uses.unexpected->getName() << "' " << uses.reason;
    failure.attachNote(uses.unexpected->getLoc()) << "payload operation";
    return failure;
  }
  if (uses.reads.empty()) {
    DiagnosedSilenceableFailure failure =
        emitSilenceableError() << "no vector.transfer_read of the filled tensor: vectorize its consumer first";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  for (FilledRead &filled : uses.reads)
    startAtFill(rewriter, fill, filled);
  rewriter.replaceOp(fill, fill.getDpsInitOperand(0)->get());
  return DiagnosedSilenceableFailure::success();
}

void ForwardFillOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::consumesHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
