# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The frame of comparisons of an operator: ours, every library and the machine's limit in turn, each result checked first."""
