// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes a #tilewright.target and a #tilewright.schedule valid.

#include "Tilewright/IR/Tilewright.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace tilewright;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

/// Checks "+a,-b": every item has a sign and a name, and no name comes twice.
static LogicalResult verifyFeatures(EmitError emitError, StringRef features) {
  if (features.empty())
    return success();
  llvm::StringSet<> seen;
  SmallVector<StringRef> items;
  features.split(items, ',');
  for (StringRef item : items) {
    bool isSigned = item.starts_with("+") || item.starts_with("-");
    bool isName = item.size() > 1 && llvm::all_of(item.drop_front(), [](char c) {
                    return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.';
                  });
    if (!isSigned || !isName)
      return emitError() << "features: expected +NAME or -NAME, got \"" << item << "\"";
    if (!seen.insert(item.drop_front()).second)
      return emitError() << "features: \"" << item.drop_front() << "\" comes more than once";
  }
  return success();
}

/// Checks a register width in bits: 0 (open), or a power of two that holds at least one 64-bit element.
static LogicalResult verifyWidth(EmitError emitError, StringRef what, int64_t bits) {
  if (bits == 0 || (bits >= 64 && llvm::isPowerOf2_64(static_cast<uint64_t>(bits))))
    return success();
  return emitError() << what << ": expected 0 or a power of two from 64, got " << bits;
}

LogicalResult TargetAttr::verify(EmitError emitError, StringRef name, StringRef triple, StringRef features,
                                 StringRef tuneCpu, int64_t vectorBits, int64_t preferVectorWidth) {
  if (name.empty())
    return emitError() << "name: expected the name of a target, got \"\"";
  if (llvm::Triple(triple).getArch() == llvm::Triple::UnknownArch)
    return emitError() << "triple: expected an LLVM target triple with a known architecture, got \"" << triple << "\"";
  if (failed(verifyFeatures(emitError, features)))
    return failure();
  if (failed(verifyWidth(emitError, "vector_bits", vectorBits)))
    return failure();
  return verifyWidth(emitError, "prefer_vector_width", preferVectorWidth);
}

/// A parameter is a number that is not negative, a switch, a name, or a list of parameters.
static LogicalResult verifyParameter(EmitError emitError, StringRef name, Attribute value) {
  if (isa<StringAttr, BoolAttr>(value))
    return success();
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    if (!integer.getValue().isNegative())
      return success();
    return emitError() << "parameters: " << name << " is negative: " << value;
  }
  if (auto list = dyn_cast<ArrayAttr>(value)) {
    for (Attribute item : list)
      if (failed(verifyParameter(emitError, name, item)))
        return failure();
    return success();
  }
  return emitError() << "parameters: " << name
                     << " must be an integer, a boolean, a string or an array of them, and is " << value;
}

LogicalResult ScheduleAttr::verify(EmitError emitError, StringRef strategy, DictionaryAttr parameters,
                                   StringRef source) {
  if (strategy.empty())
    return emitError() << "strategy: expected the name of a strategy, got \"\"";
  for (NamedAttribute parameter : parameters)
    if (failed(verifyParameter(emitError, parameter.getName(), parameter.getValue())))
      return failure();
  if (source.empty())
    return success();
  auto [file, line] = source.rsplit(':');
  unsigned number = 0;
  if (file.empty() || line.getAsInteger(10, number) || number == 0)
    return emitError() << "source: expected FILE:LINE with a line from 1, got \"" << source << "\"";
  return success();
}
