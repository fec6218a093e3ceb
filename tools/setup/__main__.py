# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python3 tools/setup`: everything from a fresh clone to an importable package. `make setup` calls it.

Idempotent: each step looks at what is there first, so that a second run takes seconds.
"""

from __future__ import annotations

import sys
import time

import environment
import llvm
import native
import packages
import sources
from common import LOG, SetupError, require_python, say


def main() -> int:
    """Runs every step; 0, or 1 after one line that says what is wrong."""
    start = time.monotonic()
    LOG.unlink(missing_ok=True)
    try:
        require_python()
        chosen = llvm.select()
        packages.ensure(chosen)
        environment.ensure()
        native.build(chosen, sources.locate(chosen))
    except SetupError as error:
        print(f"setup: error: {error}", file=sys.stderr)
        return 1
    say(f"done in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
