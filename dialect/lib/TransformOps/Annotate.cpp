// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

using namespace mlir;
using namespace tilewright;

LogicalResult AnnotateOp::verify() {
  const Place *place = placeOf(getAnnotation());
  if (!place || isa<KernelAttr>(getAnnotation()))
    return emitOpError() << "expected an attribute of the dialect that the payload carries, got " << getAnnotation();
  return success();
}

DiagnosedSilenceableFailure AnnotateOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                   transform::ApplyToEachResultList &results,
                                                   transform::TransformState &state) {
  const Place &place = *placeOf(getAnnotation());
  StringRef name = place.name;
  if (!place.carries(target)) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << "'" << target->getName() << "' cannot carry '"
                                                                 << name << "': " << place.carriers << "; match one";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  Attribute present = target->getDiscardableAttr(name);
  if (present && present != getAnnotation()) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << "'" << target->getName() << "' already carries "
                                                                 << present << " and cannot carry " << getAnnotation()
                                                                 << " too: annotate each payload operation once";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  rewriter.modifyOpInPlace(target, [&] { target->setDiscardableAttr(name, getAnnotation()); });
  return DiagnosedSilenceableFailure::success();
}

void AnnotateOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
