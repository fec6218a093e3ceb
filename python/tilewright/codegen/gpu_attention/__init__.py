# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out `#tilewright.shared_softmax`: attention as the kernel of a GPU."""
