# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of ours on bufferized functions, where upstream has none."""
