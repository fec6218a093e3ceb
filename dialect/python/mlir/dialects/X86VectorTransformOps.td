// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "mlir/Dialect/X86Vector/TransformOps/X86VectorTransformOps.td"
