# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The specs of the operators built on matmul, a class each."""

from tilewright.operator_specs.attention import AttentionSpec
from tilewright.operator_specs.base import OperatorSpec
from tilewright.operator_specs.conv2d import Conv2dSpec

__all__ = ["AttentionSpec", "Conv2dSpec", "OperatorSpec"]
