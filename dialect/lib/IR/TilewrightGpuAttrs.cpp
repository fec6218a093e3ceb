// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes a decision of a schedule for a GPU valid, and what it says, by name.

#include "Tilewright/IR/Tilewright.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

/// Checks that each of some named sizes is above zero.
static LogicalResult verifyPositive(EmitError emitError, ArrayRef<std::pair<StringRef, int64_t>> sizes) {
  for (auto [name, size] : sizes)
    if (size <= 0)
      return emitError() << name << ": expected a number above zero, got " << size;
  return success();
}

LogicalResult ThreadsAttr::verify(EmitError emitError, int64_t rows, int64_t columns) {
  return verifyPositive(emitError, {{"rows", rows}, {"columns", columns}});
}

LogicalResult WarpsAttr::verify(EmitError emitError, int64_t rows, int64_t columns, StringRef instructions) {
  if (instructions != "mma_sync" && instructions != "matrix_cores")
    return emitError() << "instructions: expected \"mma_sync\" or \"matrix_cores\", got \"" << instructions << "\"";
  return verifyPositive(emitError, {{"rows", rows}, {"columns", columns}});
}

LogicalResult WarpGroupsAttr::verify(EmitError emitError, int64_t consumers, bool pingpong, int64_t cluster,
                                     int64_t split, bool swapped, int64_t band, int64_t promote) {
  if (pingpong && consumers != 2)
    return emitError() << "pingpong: expected 2 consumers, got " << consumers;
  if (promote < 0)
    return emitError() << "promote: expected a number of steps, or 0 for never, got " << promote;
  return verifyPositive(emitError, {{"consumers", consumers}, {"cluster", cluster}, {"split", split}, {"band", band}});
}

LogicalResult TensorMemoryAttr::verify(EmitError emitError, int64_t buffers, int64_t cluster, bool swapped,
                                       int64_t band) {
  return verifyPositive(emitError, {{"buffers", buffers}, {"cluster", cluster}, {"band", band}});
}

LogicalResult PipelineAttr::verify(EmitError emitError, int64_t stages) {
  return verifyPositive(emitError, {{"stages", stages}});
}

bool tilewright::isSharing(Attribute attribute) {
  return isa<ThreadsAttr, WarpsAttr, WarpGroupsAttr, TensorMemoryAttr>(attribute);
}

DictionaryAttr tilewright::decisionAsDictionary(Attribute attribute) {
  Builder builder(attribute.getContext());
  NamedAttrList found;
  auto kind = [&](StringRef name) { found.append("kind", builder.getStringAttr(name)); };
  auto number = [&](StringRef name, int64_t value) { found.append(name, builder.getI64IntegerAttr(value)); };
  auto flag = [&](StringRef name, bool value) { found.append(name, builder.getBoolAttr(value)); };
  TypeSwitch<Attribute>(attribute)
      .Case([&](ThreadsAttr threads) {
        kind(ThreadsAttr::getMnemonic());
        number("rows", threads.getRows());
        number("columns", threads.getColumns());
      })
      .Case([&](WarpsAttr warps) {
        kind(warps.getInstructions());
        number("rows", warps.getRows());
        number("columns", warps.getColumns());
      })
      .Case([&](WarpGroupsAttr groups) {
        kind(WarpGroupsAttr::getMnemonic());
        number("consumers", groups.getConsumers());
        flag("pingpong", groups.getPingpong());
        number("cluster", groups.getCluster());
        number("split", groups.getSplit());
        flag("swapped", groups.getSwapped());
        number("band", groups.getBand());
        number("promote", groups.getPromote());
      })
      .Case([&](TensorMemoryAttr sums) {
        kind(TensorMemoryAttr::getMnemonic());
        number("buffers", sums.getBuffers());
        number("cluster", sums.getCluster());
        flag("swapped", sums.getSwapped());
        number("band", sums.getBand());
      })
      .Case([&](PipelineAttr pipeline) {
        kind(PipelineAttr::getMnemonic());
        number("stages", pipeline.getStages());
      });
  return found.empty() ? DictionaryAttr() : found.getDictionary(attribute.getContext());
}
