# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Console scripts for the native tools in the package's folder ``bin/``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def _become(tool: str) -> NoReturn:
    """Replaces this process by a tool of the package, with the same arguments."""
    path = Path(__file__).parent / "bin" / tool
    if not path.exists():
        sys.exit(f"{tool}: {path} does not exist: run `make setup`, which builds it")
    os.execv(path, [str(path), *sys.argv[1:]])


def opt() -> NoReturn:
    """``tilewright-opt``: mlir-opt with tilewright's dialect, passes and transform operations."""
    _become("tilewright-opt")


def lsp_server() -> NoReturn:
    """``tilewright-lsp-server``: the language server for ``.mlir`` files with tilewright's dialect."""
    _become("tilewright-lsp-server")
