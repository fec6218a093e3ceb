# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as loops over vectors: one pass over the keys, with a running maximum and sum."""
