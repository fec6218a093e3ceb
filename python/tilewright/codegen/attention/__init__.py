# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in one pass over the keys, with a running maximum and sum: carries out `#tilewright.online_softmax`."""
