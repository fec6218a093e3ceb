// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Origins.h"
#include "Tilewright/Transforms/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_DEBUGSCOPES
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// The place of a step in a location, or else the first place in a file; null where there is neither. MLIR calls text
/// without a file "-".
FileLineColLoc placeIn(Location location) {
  FileLineColLoc first;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part); name && name.getName() == kStep) {
      if (auto place = dyn_cast<FileLineColLoc>(name.getChildLoc())) {
        first = place;
        return WalkResult::interrupt();
      }
    }
    if (auto place = dyn_cast<FileLineColLoc>(part); place && !first && place.getFilename() != "-")
      first = place;
    return WalkResult::advance();
  });
  return first;
}

struct DebugScopes final : impl::DebugScopesBase<DebugScopes> {
  using DebugScopesBase::DebugScopesBase;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    file = LLVM::DIFileAttr::get(context, source, "");
    unit = LLVM::DICompileUnitAttr::get(DistinctAttr::create(UnitAttr::get(context)), llvm::dwarf::DW_LANG_C, file,
                                        StringAttr::get(context, "tilewright"), /*isOptimized=*/true,
                                        directives ? LLVM::DIEmissionKind::DebugDirectivesOnly
                                                   : LLVM::DIEmissionKind::LineTablesOnly);
    type = LLVM::DISubroutineTypeAttr::get(context, {});
    getOperation()->walk([&](LLVM::LLVMFuncOp function) {
      if (!function.isExternal())
        describe(function);
    });
  }

private:
  /// Gives a function and what is in it scopes.
  void describe(LLVM::LLVMFuncOp function) {
    Scope whole = subprogram(function.getName(), function.getLoc());
    for (Region &region : function->getRegions())
      region.walk([&](Operation *op) { op->setLoc(scoped(op->getLoc(), whole)); });
    function->setLoc(FusedLoc::get(&getContext(), {function.getLoc()}, whole));
  }

  using Scope = LLVM::DISubprogramAttr;

  Scope subprogram(StringRef name, Location location) {
    MLIRContext *context = &getContext();
    FileLineColLoc place = placeIn(location);
    LLVM::DIFileAttr where = place ? fileOf(place) : file;
    unsigned line = place ? place.getLine() : 0;
    return LLVM::DISubprogramAttr::get(context, DistinctAttr::create(UnitAttr::get(context)), unit, where,
                                       StringAttr::get(context, name), StringAttr(), where, line, line,
                                       LLVM::DISubprogramFlags::Definition | LLVM::DISubprogramFlags::Optimized, type,
                                       {}, {});
  }

  LLVM::DIFileAttr fileOf(FileLineColLoc place) {
    StringRef path = place.getFilename().strref();
    return LLVM::DIFileAttr::get(&getContext(), llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
  }

  /// A location in `scope`, which may be in another file, in the loops `around`, if any. Its column is the number of
  /// these loops among those around what its line made, so that a line table tells them too.
  Location in(Scope scope, Location location, Attribute around) {
    FileLineColLoc place = placeIn(location);
    Location line = FileLineColLoc::get(&getContext(), file.getName(), 0, 0);
    if (place) {
      auto &columns = nests[{place.getFilename(), place.getLine()}];
      unsigned column = columns.try_emplace(around, columns.size() + 1).first->second;
      line = FileLineColLoc::get(place.getFilename(), place.getLine(), column);
    }
    LLVM::DIFileAttr where = place ? fileOf(place) : scope.getFile();
    Attribute inside = where == scope.getFile() ? Attribute(scope) : LLVM::DILexicalBlockFileAttr::get(scope, where, 0);
    return FusedLoc::get(&getContext(), {line}, inside);
  }

  /// A location with its scopes: a loop is a function that is inlined where the loop stands.
  Location scoped(Location location, Scope whole) {
    if (auto [found, missing] = known.try_emplace({location, whole}, location); !missing)
      return found->second;
    Location made = location;
    if (auto call = dyn_cast<CallSiteLoc>(location)) {
      Location loop = call.getCaller();
      Scope scope = loopOf(loop) ? scopeOf(loop, whole) : whole;
      made = CallSiteLoc::get(in(scope, call.getCallee(), loop), scoped(loop, whole));
    } else {
      made = in(whole, location, Attribute());
    }
    known.find({location, whole})->second = made;
    return made;
  }

  /// The loop that a location starts with; null where it starts with none.
  static NameLoc loopOf(Location location) {
    auto call = dyn_cast<CallSiteLoc>(location);
    auto name = dyn_cast<NameLoc>(call ? call.getCallee() : location);
    return name && name.getName().strref().starts_with(kLoop) ? name : NameLoc();
  }

  Scope scopeOf(Location loop, Scope whole) {
    auto [found, missing] = loops.try_emplace({loop, whole});
    if (missing)
      found->second = subprogram(loopOf(loop).getName().strref(), loopOf(loop).getChildLoc());
    return found->second;
  }

  LLVM::DIFileAttr file;
  LLVM::DICompileUnitAttr unit;
  LLVM::DISubroutineTypeAttr type;
  llvm::DenseMap<std::pair<Location, Attribute>, Location> known;
  llvm::DenseMap<std::pair<Location, Attribute>, Scope> loops;
  llvm::DenseMap<std::pair<StringAttr, unsigned>, llvm::SmallDenseMap<Attribute, unsigned>> nests;
};
} // namespace
} // namespace tilewright
