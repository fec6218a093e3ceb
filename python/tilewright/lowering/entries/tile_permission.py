# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets an object that is linked elsewhere ask Linux for permission to use AMX's tiles when it is loaded."""

from __future__ import annotations

from tilewright.targets.amx import ARCH_PRCTL, REQUEST, TILE_DATA

_NAME = "tilewright_ask_for_tiles"


def text() -> str:
    """A function that the loader calls, in the LLVM dialect; a refusal shows when the kernel is called, as SIGILL."""
    return f"""
  llvm.mlir.global_ctors ctors = [@{_NAME}], priorities = [65535 : i32], data = [#llvm.zero]
  llvm.func @syscall(i64, ...) -> i64
  llvm.func internal @{_NAME}() {{
    %number = llvm.mlir.constant({ARCH_PRCTL} : i64) : i64
    %request = llvm.mlir.constant({REQUEST} : i64) : i64
    %part = llvm.mlir.constant({TILE_DATA} : i64) : i64
    %refused = llvm.call @syscall(%number, %request, %part) vararg(!llvm.func<i64 (i64, ...)>) : (i64, i64, i64) -> i64
    llvm.return
  }}
"""
