# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes every table, picture and sentence with figures in README and docs from docs/reference/results."""

from __future__ import annotations

import sys

import nests
from documents import WRITE, write
from published import ROOT
from tilewright.errors import TilewrightError


def main() -> int:
    """Writes all; 0, or 1 after one line that says what is wrong."""
    try:
        written = write(ROOT) + nests.write(ROOT)
    except TilewrightError as error:
        print(f"{WRITE}: error: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"wrote {path}" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
