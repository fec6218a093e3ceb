# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations on data layout and target information."""

from .._dlti_transform_ops_gen import *  # noqa: F403
