// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace tilewright;

/// The name under which the dialect keeps `annotation`; empty for what it does not know.
static StringRef nameOf(Attribute annotation) {
  if (isa<TargetAttr>(annotation))
    return TilewrightDialect::getTargetAttrName();
  if (isa<ScheduleAttr>(annotation))
    return TilewrightDialect::getScheduleAttrName();
  return "";
}

LogicalResult AnnotateOp::verify() {
  if (nameOf(getAnnotation()).empty())
    return emitOpError() << "expected a #tilewright.target or a #tilewright.schedule, got " << getAnnotation();
  return success();
}

DiagnosedSilenceableFailure AnnotateOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                   transform::ApplyToEachResultList &results,
                                                   transform::TransformState &state) {
  StringRef name = nameOf(getAnnotation());
  if (isa<TargetAttr>(getAnnotation()) && !isa<ModuleOp, FunctionOpInterface>(target)) {
    DiagnosedSilenceableFailure failure = emitSilenceableError()
                                          << "a target belongs on a module or a function, not on '" << target->getName()
                                          << "': match one of those";
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
