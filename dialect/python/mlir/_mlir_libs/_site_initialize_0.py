# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Upstream imports this module when the bindings load, and calls register_dialects for the registry of every Context."""

from ._tilewright import register_dialects

__all__ = ["register_dialects"]
