# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations of tilewright."""

from .._tilewright_transform_ops_gen import *  # noqa: F403
