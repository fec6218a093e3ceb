# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations on affine loops."""

from .._affine_transform_ops_gen import *  # noqa: F403
