// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/IR/Tilewright.h"
#include "tilewright-c/Tilewright.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace tilewright;

static TargetAttr asTarget(MlirAttribute attribute) { return cast<TargetAttr>(unwrap(attribute)); }
static ScheduleAttr asSchedule(MlirAttribute attribute) { return cast<ScheduleAttr>(unwrap(attribute)); }

bool tilewrightAttributeIsATarget(MlirAttribute attribute) { return isa<TargetAttr>(unwrap(attribute)); }
MlirTypeID tilewrightTargetAttrGetTypeID() { return wrap(TargetAttr::getTypeID()); }
MlirAttribute tilewrightTargetAttrGetChecked(MlirLocation location, MlirStringRef name, MlirStringRef triple,
                                             MlirStringRef features, MlirStringRef tuneCpu, int64_t vectorBits,
                                             int64_t preferVectorWidth) {
  Location where = unwrap(location);
  return wrap(Attribute(TargetAttr::getChecked([&] { return emitError(where); }, where.getContext(), unwrap(name),
                                               unwrap(triple), unwrap(features), unwrap(tuneCpu), vectorBits,
                                               preferVectorWidth)));
}
MlirStringRef tilewrightTargetAttrGetName(MlirAttribute attribute) { return wrap(asTarget(attribute).getName()); }
MlirStringRef tilewrightTargetAttrGetTriple(MlirAttribute attribute) { return wrap(asTarget(attribute).getTriple()); }
MlirStringRef tilewrightTargetAttrGetFeatures(MlirAttribute attribute) {
  return wrap(asTarget(attribute).getFeatures());
}
MlirStringRef tilewrightTargetAttrGetTuneCpu(MlirAttribute attribute) { return wrap(asTarget(attribute).getTuneCpu()); }
int64_t tilewrightTargetAttrGetVectorBits(MlirAttribute attribute) { return asTarget(attribute).getVectorBits(); }
int64_t tilewrightTargetAttrGetPreferVectorWidth(MlirAttribute attribute) {
  return asTarget(attribute).getPreferVectorWidth();
}

bool tilewrightAttributeIsASchedule(MlirAttribute attribute) { return isa<ScheduleAttr>(unwrap(attribute)); }
MlirTypeID tilewrightScheduleAttrGetTypeID() { return wrap(ScheduleAttr::getTypeID()); }
MlirAttribute tilewrightScheduleAttrGetChecked(MlirLocation location, MlirStringRef strategy, MlirAttribute parameters,
                                               MlirStringRef source) {
  Location where = unwrap(location);
  auto dictionary = dyn_cast<DictionaryAttr>(unwrap(parameters));
  if (!dictionary) {
    emitError(where) << "parameters: expected a dictionary, got " << unwrap(parameters);
    return wrap(Attribute());
  }
  return wrap(Attribute(ScheduleAttr::getChecked([&] { return emitError(where); }, where.getContext(), unwrap(strategy),
                                                 dictionary, unwrap(source))));
}
MlirStringRef tilewrightScheduleAttrGetStrategy(MlirAttribute attribute) {
  return wrap(asSchedule(attribute).getStrategy());
}
MlirAttribute tilewrightScheduleAttrGetParameters(MlirAttribute attribute) {
  return wrap(Attribute(asSchedule(attribute).getParameters()));
}
MlirStringRef tilewrightScheduleAttrGetSource(MlirAttribute attribute) {
  return wrap(asSchedule(attribute).getSource());
}

MlirAttribute tilewrightDecisionGetDictionary(MlirAttribute attribute) {
  return wrap(Attribute(decisionAsDictionary(unwrap(attribute))));
}
