# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From blocks that compute in vectors as large as their tiles to the threads of GPU kernels."""
