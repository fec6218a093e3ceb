# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies for GPUs, and the models of their sizes."""
