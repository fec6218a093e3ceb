# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole modules of linalg ops: what is supported, and how each is split into matrix products and the rest."""
