// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/Register.h"
#include "Tilewright/Transforms/Passes.h"
#include "tilewright-c/Tilewright.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tilewright, tilewright, tilewright::TilewrightDialect)

void tilewrightRegisterAllDialects(MlirDialectRegistry registry) { tilewright::registerAllDialects(*unwrap(registry)); }

void tilewrightRegisterAllPasses() { tilewright::registerTilewrightPasses(); }

void tilewrightMarkStep(MlirOperation root, MlirLocation step) {
  std::optional<mlir::Location> place;
  if (!mlirLocationIsNull(step))
    place = unwrap(step);
  tilewright::markStep(unwrap(root), place);
}

void tilewrightForgetSeen(MlirOperation root) { tilewright::forgetSeen(unwrap(root)); }
