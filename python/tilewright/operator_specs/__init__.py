# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The specs of the operators built on matmul, a class each. Every later stage has a module that is called as the operator is."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.operator_specs.attention import AttentionSpec
from tilewright.operator_specs.base import OperatorSpec
from tilewright.operator_specs.conv2d import Conv2dSpec

__all__ = ["OPERATORS", "AttentionSpec", "Conv2dSpec", "OperatorSpec"]

OPERATORS: Mapping[str, type[Any]] = MappingProxyType({each.operator: each for each in (Conv2dSpec, AttentionSpec)})
"""The specs by operator."""
