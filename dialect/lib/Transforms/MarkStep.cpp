// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Origins.h"
#include "Tilewright/Transforms/Passes.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tilewright {
namespace {
/// How the name of the outermost location starts while a schedule runs; the op and its attributes follow.
constexpr llvm::StringLiteral kSeen = "seen ";

/// A name that `op` has alone, as long as it lives with the attributes that it has. An op that a step makes takes over
/// the location of the one that it is made of, and so the name of another op.
std::string seenName(Operation *op) {
  return (kSeen + llvm::utohexstr(reinterpret_cast<uintptr_t>(op)) + " " +
          llvm::utohexstr(reinterpret_cast<uintptr_t>(op->getDiscardableAttrDictionary().getAsOpaquePointer())))
      .str();
}

/// A location without the names of ops that have been seen; also without steps, where `steps` are dropped.
Location stripped(Location location, bool steps) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    StringRef text = name.getName();
    if (text.starts_with(kSeen))
      return stripped(name.getChildLoc(), steps);
    if (steps && text == kStep)
      return UnknownLoc::get(location.getContext());
    return location;
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<Location> parts;
    for (Location part : fused.getLocations())
      parts.push_back(stripped(part, steps));
    return FusedLoc::get(location.getContext(), parts, fused.getMetadata());
  }
  return location;
}
} // namespace

void markStep(Operation *root, std::optional<Location> step) {
  MLIRContext *context = root->getContext();
  root->walk([&](Operation *op) {
    std::string seen = seenName(op);
    auto name = dyn_cast<NameLoc>(op->getLoc());
    if (name && name.getName() == seen)
      return;
    Location known = stripped(op->getLoc(), /*steps=*/step.has_value());
    if (step)
      known = FusedLoc::get(context, {NameLoc::get(StringAttr::get(context, kStep), *step), known});
    op->setLoc(NameLoc::get(StringAttr::get(context, seen), known));
  });
}

void forgetSeen(Operation *root) {
  root->walk([](Operation *op) { op->setLoc(stripped(op->getLoc(), /*steps=*/false)); });
}
} // namespace tilewright
