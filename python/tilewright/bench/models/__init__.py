# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models through torch.compile with our backend, beside other compilers of models."""
