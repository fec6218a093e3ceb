// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/IR/Tilewright.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

#include "Tilewright/IR/TilewrightDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "Tilewright/IR/TilewrightAttrs.cpp.inc"

void TilewrightDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Tilewright/IR/TilewrightAttrs.cpp.inc"
      >();
}

LogicalResult TilewrightDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == getTargetAttrName()) {
    if (!isa<TargetAttr>(attribute.getValue()))
      return op->emitOpError() << "'" << name << "' must be a #tilewright.target, and is " << attribute.getValue();
    if (!isa<ModuleOp, FunctionOpInterface>(op))
      return op->emitOpError() << "cannot carry '" << name << "': only a module or a function is compiled for a target";
    return success();
  }
  if (name == getScheduleAttrName()) {
    if (!isa<ScheduleAttr>(attribute.getValue()))
      return op->emitOpError() << "'" << name << "' must be a #tilewright.schedule, and is " << attribute.getValue();
    return success();
  }
  // By name: the dialect does not depend on that of loops.
  if (name == getSharingAttrName()) {
    if (!isSharing(attribute.getValue()))
      return op->emitOpError() << "'" << name << "' must be a #tilewright.threads, a #tilewright.warps, a "
                               << "#tilewright.warp_groups or a #tilewright.tensor_memory, and is "
                               << attribute.getValue();
    if (op->getName().getStringRef() != "scf.forall")
      return op->emitOpError() << "cannot carry '" << name << "': only an scf.forall over blocks is shared";
    return success();
  }
  if (name == getPipelineAttrName()) {
    if (!isa<PipelineAttr>(attribute.getValue()))
      return op->emitOpError() << "'" << name << "' must be a #tilewright.pipeline, and is " << attribute.getValue();
    if (op->getName().getStringRef() != "scf.for")
      return op->emitOpError() << "cannot carry '" << name << "': only an scf.for is a pipeline";
    return success();
  }
  return op->emitOpError() << "has the unknown attribute '" << name << "'; the dialect knows '" << getTargetAttrName()
                           << "', '" << getScheduleAttrName() << "', '" << getSharingAttrName() << "' and '"
                           << getPipelineAttrName() << "'";
}
