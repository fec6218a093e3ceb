# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect arm_neon: intrinsics of Arm NEON."""

from ._arm_neon_ops_gen import *  # noqa: F403
