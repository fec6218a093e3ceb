# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations that lower vector operations to NEON."""

from .._arm_neon_transform_ops_gen import *  # noqa: F403
