# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The version as a string, because asking the installed package's metadata takes longer than a warm compile."""

VERSION = "0.1.0"
"""As in pyproject.toml."""
