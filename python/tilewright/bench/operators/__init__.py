# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparisons of operators: ours, every library and the machine's limit in turn, each result checked first."""
