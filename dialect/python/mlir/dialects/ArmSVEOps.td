// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "mlir/Dialect/ArmSVE/IR/ArmSVE.td"
