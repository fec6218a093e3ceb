# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entries of kernels: what callers call."""
