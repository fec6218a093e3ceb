// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt with the tilewright dialect, transform operations and passes.

#include "Tilewright/Register.h"
#include "Tilewright/Transforms/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  tilewright::registerTilewrightPasses();

  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  // Passes that make binaries of gpu.module translate to LLVM IR.
  mlir::registerAllGPUToLLVMIRTranslations(registry);
  tilewright::registerAllDialects(registry);

  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "tilewright's mlir-opt\n", registry));
}
