// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes a decision of a schedule for a GPU valid.

#include "VerifyPositive.h"

#include "Tilewright/IR/Tilewright.h"

using namespace mlir;
using namespace tilewright;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

LogicalResult ThreadsAttr::verify(EmitError emitError, int64_t rows, int64_t columns) {
  return verifyPositive(emitError, {{"rows", rows}, {"columns", columns}});
}

LogicalResult WarpsAttr::verify(EmitError emitError, int64_t rows, int64_t columns, StringRef instructions) {
  if (instructions != "mma_sync" && instructions != "matrix_cores")
    return emitError() << "instructions: expected \"mma_sync\" or \"matrix_cores\", got \"" << instructions << "\"";
  return verifyPositive(emitError, {{"rows", rows}, {"columns", columns}});
}

LogicalResult WarpGroupsAttr::verify(EmitError emitError, int64_t consumers, bool pingpong, int64_t cluster,
                                     int64_t beside, int64_t split, bool streamed, bool fetched, bool swapped,
                                     int64_t band, int64_t promote) {
  if (pingpong && consumers != 2)
    return emitError() << "pingpong: expected 2 consumers, got " << consumers;
  if (promote < 0)
    return emitError() << "promote: expected a number of steps, or 0 for never, got " << promote;
  return verifyPositive(
      emitError,
      {{"consumers", consumers}, {"cluster", cluster}, {"beside", beside}, {"split", split}, {"band", band}});
}

LogicalResult TensorMemoryAttr::verify(EmitError emitError, int64_t buffers, int64_t cluster, bool pair, int64_t split,
                                       bool streamed, bool swapped, int64_t band) {
  if (pair && cluster != 2)
    return emitError() << "pair: expected cluster = 2, got " << cluster;
  return verifyPositive(emitError, {{"buffers", buffers}, {"cluster", cluster}, {"split", split}, {"band", band}});
}

LogicalResult PipelineAttr::verify(EmitError emitError, int64_t stages) {
  return verifyPositive(emitError, {{"stages", stages}});
}

LogicalResult SharedSoftmaxAttr::verify(EmitError emitError, int64_t bm, int64_t kc, int64_t rows, int64_t threads,
                                        StringRef instructions, StringRef multiplied) {
  if (instructions != "threads" && instructions != "mma_sync" && instructions != "matrix_cores")
    return emitError() << "instructions: expected \"threads\", \"mma_sync\" or \"matrix_cores\", got \"" << instructions
                       << "\"";
  if (multiplied != "f32" && multiplied != "bf16" && multiplied != "f16")
    return emitError() << "multiplied: expected \"f32\", \"bf16\" or \"f16\", got \"" << multiplied << "\"";
  return verifyPositive(emitError, {{"bm", bm}, {"kc", kc}, {"rows", rows}, {"threads", threads}});
}

LogicalResult WarpGroupSoftmaxAttr::verify(EmitError emitError, int64_t bm, int64_t kc, int64_t stages, bool overlap,
                                           bool pingpong, StringRef multiplied, int64_t merged, int64_t split) {
  if (multiplied != "bf16" && multiplied != "f16")
    return emitError() << "multiplied: expected \"bf16\" or \"f16\", got \"" << multiplied << "\"";
  return verifyPositive(emitError, {{"bm", bm}, {"kc", kc}, {"stages", stages}, {"merged", merged}, {"split", split}});
}
