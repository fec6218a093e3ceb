# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights: sums of codes, scaled once a group."""
