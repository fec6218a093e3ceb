# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line: one file a verb. A verb imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

from tilewright.cli.app import main

__all__ = ["main"]
