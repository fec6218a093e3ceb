/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface of tilewright's MLIR part, in the manner of mlir-c. */

#ifndef TILEWRIGHT_C_TILEWRIGHT_H
#define TILEWRIGHT_C_TILEWRIGHT_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Tilewright, tilewright);

/* Adds the dialect and the transform extension to `registry`. */
MLIR_CAPI_EXPORTED void tilewrightRegisterAllDialects(MlirDialectRegistry registry);

/* Registers the passes tilewright-*, for the whole process. */
MLIR_CAPI_EXPORTED void tilewrightRegisterAllPasses(void);

/*===-- #tilewright.target ------------------------------------------------===*/

MLIR_CAPI_EXPORTED bool tilewrightAttributeIsATarget(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirTypeID tilewrightTargetAttrGetTypeID(void);

/* The attribute, or a null one when its parameters are invalid, with a diagnostic at `location`. */
MLIR_CAPI_EXPORTED MlirAttribute tilewrightTargetAttrGetChecked(MlirLocation location, MlirStringRef name,
                                                                MlirStringRef triple, MlirStringRef features,
                                                                MlirStringRef tuneCpu, int64_t vectorBits,
                                                                int64_t preferVectorWidth);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightTargetAttrGetName(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightTargetAttrGetTriple(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightTargetAttrGetFeatures(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightTargetAttrGetTuneCpu(MlirAttribute attribute);
MLIR_CAPI_EXPORTED int64_t tilewrightTargetAttrGetVectorBits(MlirAttribute attribute);
MLIR_CAPI_EXPORTED int64_t tilewrightTargetAttrGetPreferVectorWidth(MlirAttribute attribute);

/*===-- #tilewright.schedule ----------------------------------------------===*/

MLIR_CAPI_EXPORTED bool tilewrightAttributeIsASchedule(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirTypeID tilewrightScheduleAttrGetTypeID(void);

/* The attribute, or a null one when its parameters are invalid, with a diagnostic at `location`. `parameters` is a
 * dictionary attribute. */
MLIR_CAPI_EXPORTED MlirAttribute tilewrightScheduleAttrGetChecked(MlirLocation location, MlirStringRef strategy,
                                                                  MlirAttribute parameters, MlirStringRef source);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightScheduleAttrGetStrategy(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirAttribute tilewrightScheduleAttrGetParameters(MlirAttribute attribute);
MLIR_CAPI_EXPORTED MlirStringRef tilewrightScheduleAttrGetSource(MlirAttribute attribute);

/*===-- Decisions of schedules ---------------------------------------------===*/

/* What a decision says, as a dictionary attribute; null for an attribute that is none. */
MLIR_CAPI_EXPORTED MlirAttribute tilewrightDecisionGetDictionary(MlirAttribute attribute);

/*===-- Where ops come from ------------------------------------------------===*/

/* Writes a step of a schedule, which has just run, into the locations of the ops below `root` that it made or whose
 * attributes it changed. A null location, before the first step: all ops count as known. */
MLIR_CAPI_EXPORTED void tilewrightMarkStep(MlirOperation root, MlirLocation step);

/* After the last step: removes from locations what `tilewrightMarkStep` remembers; the steps stay. */
MLIR_CAPI_EXPORTED void tilewrightForgetSeen(MlirOperation root);

/*===-- Translation -------------------------------------------------------===*/

/* Translates an operation in the LLVM dialect (and the dialects of intrinsics) to LLVM IR, and gives its text to
 * `onText`. On failure `onError` gets the diagnostics, one a line, and the result is failure. The operation's context
 * learns every translation that upstream has. */
MLIR_CAPI_EXPORTED MlirLogicalResult tilewrightTranslateToLLVMIR(MlirOperation operation, MlirStringCallback onText,
                                                                 MlirStringCallback onError, void *userData);

/* Gives the binary of a `spirv.module` to `onBytes`. On failure `onError` gets the diagnostics, and the result is
 * failure. */
MLIR_CAPI_EXPORTED MlirLogicalResult tilewrightSerializeSPIRV(MlirOperation operation, MlirStringCallback onBytes,
                                                              MlirStringCallback onError, void *userData);

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_C_TILEWRIGHT_H */
