# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect amx: the tile instructions of Intel AMX."""

from ._amx_ops_gen import *  # noqa: F403
