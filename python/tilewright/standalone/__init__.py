# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls the kernels of libraries that tilewright made, on numpy arrays, without a compiler.

This is all that the wheel ``tilewright-runtime`` has, where the package is called ``tilewright_runtime``: it imports nothing else of
tilewright's.
"""
