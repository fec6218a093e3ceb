# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Child processes: how each of them is started, spoken with and ended. A leaf that every stage may import."""
