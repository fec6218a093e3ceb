// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Origins.h"
#include "Tilewright/Transforms/Passes.h"

#include "Tilewright/IR/Tilewright.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_MARKLOOPS
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// What BLIS calls the loops that step by the sizes of a schedule.
constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> kNames[] = {
    {"nc", "jc"}, {"kc", "pc"}, {"mc", "ic"}, {"nr", "jr"}, {"mr", "ir"}};

/// "loop ic" for a loop that steps by one size of its schedule alone, and "loop" for others.
std::string nameOf(Operation *loop) {
  std::string name = kLoop.str();
  auto counted = dyn_cast<LoopLikeOpInterface>(loop);
  std::optional<SmallVector<OpFoldResult>> steps = counted.getLoopSteps();
  auto function = loop->getParentOfType<FunctionOpInterface>();
  auto schedule = function ? function->getAttrOfType<ScheduleAttr>(TilewrightDialect::getScheduleAttrName()) : nullptr;
  std::optional<int64_t> step = steps && steps->size() == 1 ? getConstantIntValue(steps->front()) : std::nullopt;
  if (!schedule || !step || *step == 1)
    return name;
  StringRef found;
  for (auto [size, loop] : kNames) {
    auto value = schedule.getParameters().getAs<IntegerAttr>(size);
    if (!value || value.getInt() != *step)
      continue;
    if (!found.empty())
      return name;
    found = loop;
  }
  return found.empty() ? name : name + " " + found.str();
}

struct MarkLoops final : impl::MarkLoopsBase<MarkLoops> {
  using MarkLoopsBase::MarkLoopsBase;

  void runOnOperation() override { mark(getOperation(), std::nullopt); }

  /// Marks what is in `op`, which runs at `around`: the loops around it, or nothing.
  void mark(Operation *op, std::optional<Location> around) {
    Location own = op->getLoc();
    if (isa<LoopLikeOpInterface>(op)) {
      Location loop = NameLoc::get(StringAttr::get(&getContext(), nameOf(op)), own);
      around = around ? CallSiteLoc::get(loop, *around) : loop;
    }
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps())
        mark(&inner, around);
    if (around)
      op->setLoc(CallSiteLoc::get(own, *around));
  }
};
} // namespace
} // namespace tilewright
