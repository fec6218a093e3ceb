// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every transform operation of tilewright: one file for each family, and its line here.

#ifndef TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_TD
#define TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_TD

include "Tilewright/TransformOps/Accumulators.td"
include "Tilewright/TransformOps/Amx.td"
include "Tilewright/TransformOps/Annotate.td"
include "Tilewright/TransformOps/Batch.td"
include "Tilewright/TransformOps/Compute.td"
include "Tilewright/TransformOps/Dot.td"
include "Tilewright/TransformOps/Epilogue.td"
include "Tilewright/TransformOps/Exchange.td"
include "Tilewright/TransformOps/Gpu.td"
include "Tilewright/TransformOps/Order.td"
include "Tilewright/TransformOps/Packing.td"
include "Tilewright/TransformOps/Rows.td"
include "Tilewright/TransformOps/Specialize.td"
include "Tilewright/TransformOps/Staging.td"
include "Tilewright/TransformOps/Trim.td"

#endif // TILEWRIGHT_TRANSFORMOPS_TILEWRIGHTTRANSFORMOPS_TD
