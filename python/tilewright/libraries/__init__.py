# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries of many kernels for many targets, which choose their code by the processor's features when they run."""
