# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What to compute, for the operators built on matmul: a spec class each."""

from tilewright.operator_specs.attention import AttentionSpec
from tilewright.operator_specs.base import OperatorSpec

__all__ = ["AttentionSpec", "OperatorSpec"]
