# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Searches for faster choices of strategy and sizes, by timing candidates in turn with the model's choice."""
