// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tilewright-c/Tilewright.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/SPIRV/Serialization.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// What `translate` says in errors while it works on `op`; nothing else that is said is kept from other handlers.
template <typename Translate>
static std::string errorsOf(Operation *op, Translate translate) {
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
  translate();
  return errors;
}

MlirLogicalResult tilewrightTranslateToLLVMIR(MlirOperation operation, MlirStringCallback onText,
                                              MlirStringCallback onError, void *userData) {
  Operation *op = unwrap(operation);
  DialectRegistry translations;
  registerAllToLLVMIRTranslations(translations);
  op->getContext()->appendDialectRegistry(translations);

  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
  std::string errors = errorsOf(op, [&] { llvmModule = translateModuleToLLVMIR(op, llvmContext); });
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

MlirLogicalResult tilewrightSerializeSPIRV(MlirOperation operation, MlirStringCallback onBytes,
                                           MlirStringCallback onError, void *userData) {
  auto module = dyn_cast<spirv::ModuleOp>(unwrap(operation));
  if (!module) {
    onError(wrap(StringRef("not a spirv.module")), userData);
    return wrap(failure());
  }
  SmallVector<uint32_t> words;
  bool done = false;
  std::string errors = errorsOf(module, [&] { done = succeeded(spirv::serialize(module, words)); });
  if (!done) {
    onError(wrap(StringRef(errors)), userData);
    return wrap(failure());
  }
  StringRef bytes(reinterpret_cast<const char *>(words.data()), words.size() * sizeof(uint32_t));
  onBytes(wrap(bytes), userData);
  return wrap(success());
}
