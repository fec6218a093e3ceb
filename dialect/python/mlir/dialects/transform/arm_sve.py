# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations that lower vector operations to SVE."""

from .._arm_sve_transform_ops_gen import *  # noqa: F403
