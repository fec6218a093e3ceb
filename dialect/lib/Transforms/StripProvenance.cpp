// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/Transforms/Passes.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_STRIPPROVENANCE
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
struct StripProvenance final : impl::StripProvenanceBase<StripProvenance> {
  using StripProvenanceBase::StripProvenanceBase;

  void runOnOperation() override {
    getOperation()->walk([&](Operation *op) {
      op->removeDiscardableAttr(TilewrightDialect::getScheduleAttrName());
      if (target)
        op->removeDiscardableAttr(TilewrightDialect::getTargetAttrName());
    });
  }
};
} // namespace
} // namespace tilewright
