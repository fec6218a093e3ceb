# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations on functions and calls."""

from .._func_transform_ops_gen import *  # noqa: F403
