# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs netlib's testers of a BLAS, which run on kernels of ours in `test/outside`. `make setup-netlib` calls it."""

from __future__ import annotations

import sys
from pathlib import Path

import packages
from common import SetupError, say

TESTERS = packages.Need(
    "netlib's testers of a BLAS",
    lambda: any(Path("/usr/lib").glob("*/blas/xblat3s")),
    ("libblas-test",),
    required=False,
)


def main() -> int:
    """Installs the testers where they are missing; 0 also where they cannot be had, after a line that says why."""
    try:
        packages.provide([TESTERS])
    except SetupError as error:
        say(str(error))
    if not TESTERS.met():
        say("going on without netlib's testers of a BLAS: the tests that run them are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
