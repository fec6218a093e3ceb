# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products on vectors whose length only the machine knows."""
