# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transform operations that lower vector operations to AVX."""

from .._x86vector_transform_ops_gen import *  # noqa: F403
