# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a spec computes: as a linalg module, and beside it as NumPy."""
