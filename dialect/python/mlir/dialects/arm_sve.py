# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect arm_sve: intrinsics of Arm SVE."""

from ._arm_sve_ops_gen import *  # noqa: F403
