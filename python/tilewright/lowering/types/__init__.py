# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types that a target cannot move, convert or compute with: what they are written as."""
