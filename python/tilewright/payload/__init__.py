# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Payloads: what a spec computes, as a linalg module and as NumPy."""
