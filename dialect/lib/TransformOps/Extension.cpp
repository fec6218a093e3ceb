// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the transform operations. Each one's meaning is in a file of its own beside this one.

#include "Clauses.h"
#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "Tilewright/TransformOps/TilewrightTransformOps.cpp.inc"

namespace {
class TilewrightTransformExtension : public transform::TransformDialectExtension<TilewrightTransformExtension> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilewrightTransformExtension)
  using Base::Base;

  void init() {
    declareDependentDialect<tilewright::TilewrightDialect>();
    declareGeneratedDialect<affine::AffineDialect>();
    declareGeneratedDialect<amx::AMXDialect>();
    declareGeneratedDialect<arith::ArithDialect>();
    declareGeneratedDialect<bufferization::BufferizationDialect>();
    declareGeneratedDialect<linalg::LinalgDialect>();
    declareGeneratedDialect<LLVM::LLVMDialect>();
    declareGeneratedDialect<memref::MemRefDialect>();
    declareGeneratedDialect<scf::SCFDialect>();
    declareGeneratedDialect<tensor::TensorDialect>();
    declareGeneratedDialect<ub::UBDialect>();
    declareGeneratedDialect<vector::VectorDialect>();
    registerTransformOps<
#define GET_OP_LIST
#include "Tilewright/TransformOps/TilewrightTransformOps.cpp.inc"
        >();
  }
};
} // namespace

void tilewright::registerTransformExtension(DialectRegistry &registry) {
  registry.addExtensions<TilewrightTransformExtension>();
}
