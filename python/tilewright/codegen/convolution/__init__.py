# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions: products whose packing reads patches from images, and depthwise ones in vectors of channels (`#tilewright.depthwise`)."""
