# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect arm_sme: tiles and streaming mode of Arm SME."""

from ._arm_sme_ops_gen import *  # noqa: F403
