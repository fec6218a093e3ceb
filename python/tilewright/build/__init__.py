# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vocabulary for building IR: index arithmetic, constants, vectors, loops, views and use-def queries."""
