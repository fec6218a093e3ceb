// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "Tilewright/TransformOps/TilewrightTransformOps.td"
