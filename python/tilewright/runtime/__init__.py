# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime: compilation through the disk cache, and kernels that can be called."""
