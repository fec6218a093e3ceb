# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code generation for decisions that upstream's passes do not carry out: a registry, and one package or file a decision."""
