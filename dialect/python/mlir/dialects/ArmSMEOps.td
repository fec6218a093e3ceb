// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "mlir/Dialect/ArmSME/IR/ArmSMEOps.td"
