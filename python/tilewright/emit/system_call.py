# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR of a function that calls Linux, for code without a C library around it."""

from __future__ import annotations

from tilewright.targets.linux import SystemCalls


def text(system: SystemCalls) -> str:
    """The function ``i64 @system(i64 number, i64, i64, i64, i64, i64, i64)``, internal to its module."""
    return f"""
define internal i64 @system(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) noinline {{
  %r = call i64 asm sideeffect "{system.instruction}", "{system.registers}"(
    i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %r
}}
"""
