# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies for CPUs: one file each, named for what it does."""
