# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations that match linalg operations."""

from .._match_transform_ops_gen import *  # noqa: F403
