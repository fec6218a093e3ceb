# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowering: a schedule applied to a payload, then on to the LLVM dialect, stage by named stage."""
