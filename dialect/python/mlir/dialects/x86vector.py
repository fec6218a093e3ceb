# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect x86vector: intrinsics of AVX, AVX2 and AVX-512."""

from ._x86vector_ops_gen import *  # noqa: F403
