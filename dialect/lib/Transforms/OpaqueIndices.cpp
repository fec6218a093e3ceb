// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_OPAQUEINDICES
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
struct OpaqueIndices final : impl::OpaqueIndicesBase<OpaqueIndices> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    DenseMap<Value, Value> opaque;
    const auto hide = [&](OpOperand &operand) {
      const Value value = operand.get();
      if (!value.getType().isIndex() || matchPattern(value, m_Constant()))
        return;
      Value &cast = opaque[value];
      if (!cast) {
        builder.setInsertionPointAfterValue(value);
        cast = UnrealizedConversionCastOp::create(builder, value.getLoc(), value.getType(), value).getResult(0);
      }
      operand.set(cast);
    };
    getOperation()->walk([&](Operation *op) {
      if (isa<tensor::ExtractSliceOp, tensor::InsertSliceOp, tensor::ParallelInsertSliceOp, vector::TransferReadOp,
              vector::TransferWriteOp>(op))
        llvm::for_each(op->getOpOperands(), hide);
    });
  }
};
} // namespace
} // namespace tilewright
