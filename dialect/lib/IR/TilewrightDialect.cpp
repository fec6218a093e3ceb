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

/// By name: the dialect depends neither on that of loops nor on linalg.
static bool isScfForall(Operation *op) { return op->getName().getStringRef() == "scf.forall"; }
static bool isScfFor(Operation *op) { return op->getName().getStringRef() == "scf.for"; }
static bool isLinalg(Operation *op) { return op->getName().getDialectNamespace() == "linalg"; }
/// A size that a schedule gives the lowering, from a parameter; 0 is one of its options.
static bool isSize(Attribute attribute) {
  auto size = dyn_cast<IntegerAttr>(attribute);
  return size && size.getType().isSignlessInteger(64) && size.getInt() >= 0;
}
static bool isFunction(Operation *op) { return isa<FunctionOpInterface>(op); }
static bool isSoftmax(Operation *op) { return op->getName().getStringRef() == "linalg.softmax"; }

static constexpr Place kPlaces[] = {
    {TilewrightDialect::getTargetAttrName(), "a #tilewright.target", [](Attribute a) { return isa<TargetAttr>(a); },
     "only a module or a function is compiled for a target",
     [](Operation *op) { return isa<ModuleOp, FunctionOpInterface>(op); }},
    {TilewrightDialect::getScheduleAttrName(), "a #tilewright.schedule",
     [](Attribute a) { return isa<ScheduleAttr>(a); }, "any operation may", [](Operation *) { return true; }},
    {TilewrightDialect::getSharingAttrName(),
     "a #tilewright.threads, a #tilewright.warps, a #tilewright.warp_groups or a #tilewright.tensor_memory",
     [](Attribute a) { return isa<ThreadsAttr, WarpsAttr, WarpGroupsAttr, TensorMemoryAttr>(a); },
     "only an scf.forall over blocks is shared", isScfForall},
    {TilewrightDialect::getPipelineAttrName(), "a #tilewright.pipeline",
     [](Attribute a) { return isa<PipelineAttr>(a); }, "only an scf.for is a pipeline", isScfFor},
    {TilewrightDialect::getProductAttrName(),
     "a #tilewright.scalable_tiles, a #tilewright.outer_products or a #tilewright.scaled_sums",
     [](Attribute a) { return isa<ScalableTilesAttr, OuterProductsAttr, ScaledSumsAttr>(a); },
     "only a linalg op is a product", isLinalg},
    {TilewrightDialect::getSoftmaxAttrName(),
     "a #tilewright.online_softmax, a #tilewright.shared_softmax or a #tilewright.warp_group_softmax",
     [](Attribute a) { return isa<OnlineSoftmaxAttr, SharedSoftmaxAttr, WarpGroupSoftmaxAttr>(a); },
     "only a linalg.softmax is computed online", isSoftmax},
    {TilewrightDialect::getConvolutionAttrName(), "a #tilewright.depthwise",
     [](Attribute a) { return isa<DepthwiseAttr>(a); }, "only a linalg op is a convolution", isLinalg},
    {TilewrightDialect::getPatchesAttrName(), "a #tilewright.patches", [](Attribute a) { return isa<PatchesAttr>(a); },
     "only a function takes images in place of their patches", isFunction},
    {TilewrightDialect::getPrefetchAttrName(), "a #tilewright.prefetch",
     [](Attribute a) { return isa<PrefetchAttr>(a); }, "only a function prefetches its operands", isFunction},
    {TilewrightDialect::getUnrollAttrName(), "an i64 of at least 0", isSize, "only a function has loops over K",
     isFunction},
    {TilewrightDialect::getAheadAttrName(), "an i64 of at least 0", isSize, "only a function prefetches its operands",
     isFunction},
    {TilewrightDialect::getRowsAheadAttrName(), "an i64 of at least 0", isSize,
     "only a function prefetches its operands", isFunction},
    {TilewrightDialect::getPastL1AttrName(), "an i64 of at least 0", isSize, "only a function loads tiles", isFunction},
    {TilewrightDialect::getImagesAttrName(), "an i64 of at least 0", isSize, "only a function reads images",
     isFunction},
    {TilewrightDialect::getAcrossAttrName(), "an i64 of at least 0", isSize,
     "only a function has loops that threads share", isFunction},
    {TilewrightDialect::getKernelAttrName(), "a #tilewright.kernel", [](Attribute a) { return isa<KernelAttr>(a); },
     "only a schedule's module is for some calls", [](Operation *op) { return isa<ModuleOp>(op); }},
};

ArrayRef<Place> tilewright::places() { return kPlaces; }

const Place *tilewright::placeOf(Attribute attribute) {
  // A number does not say which one it is.
  if (isa<IntegerAttr>(attribute))
    return nullptr;
  const Place *found = llvm::find_if(kPlaces, [&](const Place &place) { return place.holds(attribute); });
  return found == std::end(kPlaces) ? nullptr : found;
}

LogicalResult TilewrightDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  const Place *place = llvm::find_if(kPlaces, [&](const Place &each) { return each.name == name; });
  if (place == std::end(kPlaces)) {
    InFlightDiagnostic error = op->emitOpError() << "has the unknown attribute '" << name << "'; the dialect knows ";
    llvm::interleaveComma(kPlaces, error, [&](const Place &each) { error << "'" << each.name << "'"; });
    return error;
  }
  if (!place->holds(attribute.getValue()))
    return op->emitOpError() << "'" << name << "' must be " << place->kinds << ", and is " << attribute.getValue();
  if (!place->carries(op))
    return op->emitOpError() << "cannot carry '" << name << "': " << place->carriers;
  return success();
}
