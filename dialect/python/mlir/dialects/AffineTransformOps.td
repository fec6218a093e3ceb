// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "mlir/Dialect/Affine/TransformOps/AffineTransformOps.td"
