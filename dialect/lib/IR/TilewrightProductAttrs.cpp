// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes a decision of a schedule for a CPU valid.

#include "VerifyPositive.h"

#include "Tilewright/IR/Tilewright.h"

using namespace mlir;
using namespace tilewright;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

LogicalResult ScalableTilesAttr::verify(EmitError emitError, int64_t mr, int64_t nr, int64_t mc, int64_t nc,
                                        int64_t kc) {
  return verifyPositive(emitError, {{"mr", mr}, {"nr", nr}, {"mc", mc}, {"nc", nc}, {"kc", kc}});
}

LogicalResult OuterProductsAttr::verify(EmitError emitError, int64_t mc, int64_t nc, int64_t kc) {
  return verifyPositive(emitError, {{"mc", mc}, {"nc", nc}, {"kc", kc}});
}

LogicalResult ScaledSumsAttr::verify(EmitError emitError, int64_t mr, int64_t nr, int64_t nc, int64_t kc) {
  return verifyPositive(emitError, {{"mr", mr}, {"nr", nr}, {"nc", nc}, {"kc", kc}});
}

LogicalResult OnlineSoftmaxAttr::verify(EmitError emitError, int64_t kc, int64_t mr, int64_t nr, int64_t columns,
                                        bool merged, StringRef vectorize, StringRef multiplied,
                                        StringRef instructions) {
  if (vectorize != "queries" && vectorize != "head")
    return emitError() << "vectorize: expected \"queries\" or \"head\", got \"" << vectorize << "\"";
  if (multiplied != "f32" && multiplied != "bf16")
    return emitError() << "multiplied: expected \"f32\" or \"bf16\", got \"" << multiplied << "\"";
  if (instructions != "vectors" && instructions != "tiles")
    return emitError() << "instructions: expected \"vectors\" or \"tiles\", got \"" << instructions << "\"";
  if (instructions == "tiles" && (multiplied != "bf16" || vectorize != "queries"))
    return emitError() << "instructions: tiles multiply bf16, with queries in the lanes of vectors; got multiplied = \""
                       << multiplied << "\", vectorize = \"" << vectorize << "\"";
  if (vectorize == "head" && (mr != 1 || nr != 1 || columns != 1))
    return emitError() << "mr, nr, columns: expected 1 with vectorize = \"head\", got " << mr << ", " << nr << ", "
                       << columns;
  return verifyPositive(emitError, {{"kc", kc}, {"mr", mr}, {"nr", nr}, {"columns", columns}});
}

/// Checks that there are `count` numbers, of at least `least` each.
static LogicalResult verifyNumbers(EmitError emitError, StringRef name, DenseI64ArrayAttr numbers, size_t count,
                                   int64_t least) {
  if (static_cast<size_t>(numbers.size()) != count ||
      llvm::any_of(numbers.asArrayRef(), [&](int64_t each) { return each < least; }))
    return emitError() << name << ": expected " << count << " numbers of at least " << least << ", got " << numbers;
  return success();
}

LogicalResult PatchesAttr::verify(EmitError emitError, int64_t operand, StringRef pixels, DenseI64ArrayAttr images,
                                  DenseI64ArrayAttr pitches, DenseI64ArrayAttr extents, DenseI64ArrayAttr results,
                                  DenseI64ArrayAttr filter, int64_t channels, DenseI64ArrayAttr stride,
                                  DenseI64ArrayAttr dilation, DenseI64ArrayAttr before) {
  if (operand < 0)
    return emitError() << "operand: expected the number of an argument, got " << operand;
  if (pixels != "rows" && pixels != "columns")
    return emitError() << "pixels: expected \"rows\" or \"columns\", got \"" << pixels << "\"";
  if (failed(verifyNumbers(emitError, "images", images, pixels == "rows" ? 4 : 3, 1)) ||
      failed(verifyNumbers(emitError, "pitches", pitches, 4, 1)) ||
      failed(verifyNumbers(emitError, "extents", extents, 2, 1)) ||
      failed(verifyNumbers(emitError, "results", results, 2, 1)) ||
      failed(verifyNumbers(emitError, "filter", filter, 2, 1)) ||
      failed(verifyNumbers(emitError, "stride", stride, 2, 1)) ||
      failed(verifyNumbers(emitError, "dilation", dilation, 2, 1)) ||
      failed(verifyNumbers(emitError, "before", before, 2, 0)))
    return failure();
  return verifyPositive(emitError, {{"channels", channels}});
}

LogicalResult DepthwiseAttr::verify(EmitError emitError, int64_t channels, int64_t pixels) {
  return verifyPositive(emitError, {{"channels", channels}, {"pixels", pixels}});
}

LogicalResult PrefetchAttr::verify(EmitError emitError, StringRef operands) {
  if (operands != "none" && operands != "all")
    return emitError() << "operands: expected \"none\" or \"all\", got \"" << operands << "\"";
  return success();
}

/// Checks {m = array<i64: least, most, divisor>}.
static LogicalResult verifyExtents(EmitError emitError, DictionaryAttr extents) {
  for (NamedAttribute each : extents) {
    auto bounds = dyn_cast<DenseI64ArrayAttr>(each.getValue());
    if (!bounds || bounds.size() != 3 || bounds[0] < 0 || bounds[1] < bounds[0] || bounds[2] < 1)
      return emitError() << "extents: expected least, most and divisor of " << each.getName() << ", got "
                         << each.getValue();
    if (each.getName() != "m" && each.getName() != "n" && each.getName() != "k")
      return emitError() << "extents: expected m, n or k, got " << each.getName();
  }
  return success();
}

/// Whether `extents` are m, n or k, and at least one.
static bool areExtents(StringRef extents) {
  return !extents.empty() && llvm::all_of(extents, [](char c) { return c == 'm' || c == 'n' || c == 'k'; });
}

/// Checks {extents = "kn", least, most, multiple}, of a product of extents or a quotient "k/m".
static LogicalResult verifyTest(EmitError emitError, Attribute attribute) {
  auto test = dyn_cast<DictionaryAttr>(attribute);
  auto extents = test ? test.getAs<StringAttr>("extents") : StringAttr();
  auto [over, under] = extents ? extents.getValue().split('/') : std::pair<StringRef, StringRef>();
  bool isQuotient = extents && extents.getValue().contains('/');
  bool isValid = areExtents(over) && test.size() == 4 && (!isQuotient || (areExtents(under) && under.size() == 1));
  for (StringRef name : {"least", "most", "multiple"})
    isValid = isValid && test.getAs<IntegerAttr>(name);
  if (!isValid)
    return emitError() << "cases: expected a test of extents with least, most and multiple, got " << attribute;
  return success();
}

LogicalResult KernelAttr::verify(EmitError emitError, int64_t threads, StringRef share, DictionaryAttr extents,
                                 ArrayAttr cases) {
  if (share != "loops" && share != "calls")
    return emitError() << "share: expected \"loops\" or \"calls\", got \"" << share << "\"";
  if (failed(verifyPositive(emitError, {{"threads", threads}})) || failed(verifyExtents(emitError, extents)))
    return failure();
  for (Attribute each : cases) {
    auto found = dyn_cast<DictionaryAttr>(each);
    auto number = found ? found.getAs<IntegerAttr>("number") : IntegerAttr();
    auto tests = found ? found.getAs<ArrayAttr>("tests") : ArrayAttr();
    if (!number || number.getValue().isNegative() || !tests || found.size() != 2)
      return emitError() << "cases: expected a number and tests, got " << each;
    for (Attribute test : tests)
      if (failed(verifyTest(emitError, test)))
        return failure();
  }
  return success();
}
