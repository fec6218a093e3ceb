// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tilewright-c/Tilewright.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

MlirLogicalResult tilewrightTranslateToLLVMIR(MlirOperation operation, MlirStringCallback onText,
                                              MlirStringCallback onError, void *userData) {
  Operation *op = unwrap(operation);
  DialectRegistry translations;
  registerAllToLLVMIRTranslations(translations);
  op->getContext()->appendDialectRegistry(translations);

  std::string errors;
  ScopedDiagnosticHandler collect(op->getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure(); // Not ours: the next handler's.
    llvm::raw_string_ostream stream(errors);
    stream << diagnostic.getLocation() << ": " << diagnostic << "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      stream << note.getLocation() << ": note: " << note << "\n";
    return success();
  });

  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(op, llvmContext);
  if (!llvmModule) {
    onError(wrap(StringRef(errors)), userData);
    return wrap(failure());
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvmModule->print(stream, nullptr);
  onText(wrap(StringRef(text)), userData);
  return wrap(success());
}
