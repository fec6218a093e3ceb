# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of sizes and costs, from a target's data; nothing here makes IR."""
