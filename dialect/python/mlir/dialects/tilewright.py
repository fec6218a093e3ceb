# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tilewright dialect: attributes that say for what a payload is compiled, and what scheduled it."""

from .._mlir_libs._tilewright import ScheduleAttr, TargetAttr

__all__ = ["ScheduleAttr", "TargetAttr"]
